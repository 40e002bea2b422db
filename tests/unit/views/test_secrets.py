# SPDX-License-Identifier: Apache-2.0
"""Which values a comparison hides."""

import pytest

from trainwright.controller.views.parameters import HIDDEN, looks_secret, shown, within


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "WANDB_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "DB_PASSWORD",
        "dbpassword",
        "MYSQL_PWD",
        "apiKey",
        "APIKEY",
        "hub-token",
        "--auth-token",
        "GITHUB_TOKENS",
        "SSH_KEY",
        "key",
        "privateKey",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "AUTHORIZATION",
        "SLACK_WEBHOOK",
        "SENTRY_DSN",
        "SESSION_COOKIE",
        "MYSECRET",
        "passphrase",
        "CONNECTION_STRING",
        "KEY_1_KEY",
        "token2",
        "GH_PAT",
    ],
)
def test_names_that_look_like_secrets(name: str) -> None:
    assert looks_secret(name)
    assert shown(name, "value-of-it") == HIDDEN


@pytest.mark.parametrize(
    "name",
    [
        "lr",
        "max_tokens",
        "--max-new-tokens",
        "tokenizer",
        "TOKENIZERS_PARALLELISM",
        "num_key_value_heads",
        "PWD",
        "author",
        "monkey",
        "keyboard",
        "LR",
        "BATCH_SIZE",
        "epochs",
        "path",
        "pattern",
        "pinned",
        "warmup",
        "hidden_size",
    ],
)
def test_names_of_what_is_tuned_are_no_secrets(name: str) -> None:
    assert not looks_secret(name)
    assert shown(name, "512") == "512"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("HF_TOKEN=abc python train.py --lr 0.1", "HF_TOKEN=(hidden) python train.py --lr 0.1"),
        ("train.py --api-key abc --lr 0.1", "train.py --api-key (hidden) --lr 0.1"),
        ("export DB_PASSWORD='a b c'; run", "export DB_PASSWORD=(hidden); run"),
        ('{"token": "abc", "lr": 1}', '{"token": (hidden), "lr": 1}'),
        ("s3://id:word@bucket/data", "s3://(hidden)@bucket/data"),
        ("https://host/file?sig=a&token=abc&n=1", "https://host/file?sig=a&token=(hidden)&n=1"),
        ("the key to a good run", "the key to a good run"),
        ("lr=0.1 --epochs 3", "lr=0.1 --epochs 3"),
    ],
)
def test_secrets_in_a_text(text: str, wanted: str) -> None:
    assert within(text) == wanted


def test_a_long_text_is_cut_and_takes_no_time() -> None:
    assert len(within("a-" * 500_000)) < 21_000

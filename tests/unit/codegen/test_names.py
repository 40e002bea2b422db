# SPDX-License-Identifier: Apache-2.0
"""Attribute names keep acronyms whole and are safe in Python."""

import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.codegen.structs import attribute


@pytest.mark.parametrize(
    ("wire", "name"),
    [
        ("hostIP", "host_ip"),
        ("podCIDRs", "pod_cidrs"),
        ("clusterIPs", "cluster_ips"),
        ("nonResourceURLs", "non_resource_urls"),
        ("setHostnameAsFQDN", "set_hostname_as_fqdn"),
        ("targetWWNs", "target_wwns"),
        ("enableDNSHostnames", "enable_dns_hostnames"),
        ("awsElasticBlockStore", "aws_elastic_block_store"),
        ("scaleIO", "scale_io"),
        ("storageUri", "storage_uri"),
        ("numProcPerNode", "num_proc_per_node"),
        ("JSONSchemas", "json_schemas"),
        ("IPAddress", "ip_address"),
        ("podIPsX", "pod_ips_x"),
        ("x509Cert", "x509_cert"),
        ("tls.crt", "tls_crt"),
        ("$ref", "ref"),
        ("9lives", "field_9lives"),
        ("from", "from_"),
        ("continue", "continue_"),
        ("list", "list_"),
        ("deepcopy", "deepcopy_"),
    ],
)
def test_names(wire: str, name: str) -> None:
    assert attribute(wire) == name


@given(st.from_regex(r"\A[A-Za-z$][A-Za-z0-9.-]{0,20}\Z"))
def test_every_name_is_an_attribute(wire: str) -> None:
    name = attribute(wire)
    assert name.isidentifier()
    assert not keyword.iskeyword(name)
    assert name == name.lower()

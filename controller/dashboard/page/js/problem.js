// SPDX-License-Identifier: Apache-2.0

/**
 * Why a request was not answered; `reason` is a word of the contract, or `Lost` if the dashboard does not answer, or
 * `Stranger` if another program does.
 */
export class Problem extends Error {
  constructor(reason, message) {
    super(message);
    this.reason = reason;
  }
}

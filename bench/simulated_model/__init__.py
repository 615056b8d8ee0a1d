# SPDX-License-Identifier: Apache-2.0
"""A simulated model: a deterministic policy behind the providers' protocols, with set delays, token rates and errors.
It answers each planning layer's prompt from the text of that prompt alone."""

# SPDX-License-Identifier: Apache-2.0
"""Language models behind one protocol; `factory.make_client` builds one, and no SDK is imported before it is needed."""

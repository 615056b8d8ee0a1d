# SPDX-License-Identifier: Apache-2.0
"""Turn an instruction into calls, each strategy in a folder of its own."""

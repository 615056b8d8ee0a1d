# SPDX-License-Identifier: Apache-2.0
"""Build prompts from blocks and read the tagged answers."""

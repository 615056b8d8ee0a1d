# SPDX-License-Identifier: Apache-2.0
"""Plan with a model that writes Python at an emulated prompt (incremental learning from interaction, section 3)."""

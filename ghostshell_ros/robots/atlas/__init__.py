# SPDX-License-Identifier: Apache-2.0
"""Atlas, an arm of seven joints that stands on a kitchen table."""

# SPDX-License-Identifier: Apache-2.0
"""Play recorded runs again: read their files, compare the calls of a replay, and give recorded answers as a model."""

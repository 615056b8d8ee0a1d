# SPDX-License-Identifier: Apache-2.0
"""Read YAML files and their sections, with errors that name file and line."""

# SPDX-License-Identifier: Apache-2.0
"""Ask a model for what S3 leaves to meaning (TypeGo 5.2)."""

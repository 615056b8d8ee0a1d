# SPDX-License-Identifier: Apache-2.0
"""Robots that are shipped: skills, bodies and models, named by the files in `config/robots/`. No other package needs them."""

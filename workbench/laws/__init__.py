"""The laws wing: verification of rules, theorems for all extents and ranks, synthesis of rules."""

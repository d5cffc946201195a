"""Why a term is in an e-graph, and why another is not."""

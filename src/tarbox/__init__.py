"""tarbox: multi-hop questions over an ontology and its knowledge graph, answered with entities and with concepts."""

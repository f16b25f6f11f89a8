"""Models: each scores all entities or all concepts for a batch of queries of one shape; none sees a template."""

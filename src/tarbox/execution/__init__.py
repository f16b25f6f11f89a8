"""What a query means: one interpreter over any algebra, and exact answers on a knowledge base."""

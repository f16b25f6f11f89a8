"""What programs use: the knowledge base, its answers, and their explanations."""

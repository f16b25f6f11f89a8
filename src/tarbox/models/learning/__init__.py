"""Learning by gradient: samples, negatives, the objective, and the seam that every model is trained through."""

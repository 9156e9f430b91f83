"""From a shop with SIDs to a trained model: plan, tokens, examples of the three stages, the loop."""

"""The records that stages hand on: a Program of the frontend, a GraphPlan of lowering, what was compiled."""

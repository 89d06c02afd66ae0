"""The OpenAPI document: what every route answers, as schemas with examples."""

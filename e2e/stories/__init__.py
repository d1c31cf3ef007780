"""What users do with Naiad on Kubernetes, each story a test that a person could follow."""

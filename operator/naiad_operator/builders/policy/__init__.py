"""What a platform refuses to services, decided before anything is created."""

"""The custom resources as the API server knows them: schema, CustomResourceDefinitions, reference page."""

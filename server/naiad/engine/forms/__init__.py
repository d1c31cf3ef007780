"""The form in which a request wants its responses: classes in place of values, outputs in shared memory."""

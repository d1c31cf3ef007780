"""The comparison of both answers, and its report."""

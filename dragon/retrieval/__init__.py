"""Finding documents: chunking, embedding, nearest neighbours, relevance."""

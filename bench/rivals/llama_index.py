"""LlamaIndex as its documentation begins: an index in memory and its query engine."""

from __future__ import annotations

from llama_index.core import Document, Settings, VectorStoreIndex
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike

from bench.lib.rivals import Task, serve


def answers(task: Task) -> list[str]:
    """The reply to each question, with the library's own splitting, prompts and two passages."""
    Settings.llm = OpenAILike(
        model=task.model,
        api_base=task.llm,
        api_key=task.key,
        is_chat_model=True,
        temperature=0,
        max_tokens=task.tokens,
        timeout=600,
    )
    Settings.embed_model = OpenAILikeEmbedding(
        model_name=task.embedder, api_base=task.embeddings, api_key=task.key, timeout=600
    )
    index = VectorStoreIndex.from_documents([Document(text=text) for text in task.documents])
    engine = index.as_query_engine()
    return [str(engine.query(question)) for question in task.questions]


if __name__ == "__main__":
    serve(answers)

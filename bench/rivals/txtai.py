"""txtai as its documentation begins: an embeddings database and its RAG pipeline."""

from __future__ import annotations

from openai import OpenAI
from txtai import RAG, Embeddings

from bench.lib.rivals import Task, serve

_BATCH = 256


def answers(task: Task) -> list[str]:
    """The reply to each question, with the library's own prompt and three documents."""
    llm = OpenAI(base_url=task.llm, api_key=task.key, timeout=600)
    embedder = OpenAI(base_url=task.embeddings, api_key=task.key, timeout=600)

    def embed(texts: list[str]) -> list[list[float]]:
        found = [
            embedder.embeddings.create(model=task.embedder, input=texts[start : start + _BATCH])
            for start in range(0, len(texts), _BATCH)
        ]
        return [one.embedding for batch in found for one in batch.data]

    def reply(prompt: str) -> str:
        done = llm.chat.completions.create(
            model=task.model,
            messages=[{"role": "user", "content": prompt}],
            temperature=0,
            max_tokens=task.tokens,
        )
        return done.choices[0].message.content or ""

    database = Embeddings(method="external", transform=embed, content=True)
    database.index(task.documents)
    rag = RAG(database, lambda prompts: [reply(prompt) for prompt in prompts], output="flatten")
    return list(rag(list(task.questions)))


if __name__ == "__main__":
    serve(answers)

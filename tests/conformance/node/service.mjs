// Where the services are that `tests.conformance.serve` has started; see conftest.py.

const { DRAGON_URL, DRAGON_TOOLS_URL, DRAGON_WRITER_URL, DRAGON_KEY } = process.env;

export const KEY = DRAGON_KEY;
export const DEVICE = `${DRAGON_URL}/v1`;
export const WITH_TOOLS = `${DRAGON_TOOLS_URL}/v1`;
export const WRITING = `${DRAGON_WRITER_URL}/v1`;

export const MODEL = "dragon-7m";
export const EMBEDDER = "all-MiniLM-L6-v2";
export const WRITER = "SmolLM2-135M-Instruct.Q4_1";
export const QUESTION = "What is the currency of Vietnam?";
export const ANSWER = /dong/;
export const ROOMS = ["hall", "attic"];

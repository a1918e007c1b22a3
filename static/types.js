/**
 * Shapes that cross module borders: the frames of `/ws/chat` and the objects of `/v1/files`.
 * Types only; nothing imports this file when the page runs.
 *
 * @typedef {"private" | "public"} Side
 *
 * @typedef {object} Source
 * @property {Side} side
 * @property {string} id
 * @property {string} title
 * @property {string} text
 * @property {number} score Similarity to the question (cosine).
 * @property {number} weight Share among the passages of its side, 0 to 1.
 * @property {number | null} [page] Counted from 1.
 *
 * @typedef {object} Peer
 * @property {"connected" | "connecting" | "refused"} state
 * @property {number | null} rtt_ms
 * @property {string} detail
 *
 * @typedef {{role: "user" | "assistant", content: string}} Message
 * @typedef {{message: string, code?: string | null}} Problem
 *
 * @typedef {object} Done
 * @property {"done"} type
 * @property {string} id
 * @property {"stop" | "length" | "cancelled"} finish_reason
 * @property {{prompt_tokens: number, completion_tokens: number}} usage
 * @property {{participation?: [number, number][]}} [dragon] Half-open token ranges written with the cloud; not told of a stopped answer.
 *
 * @typedef {{type: "status", peer: Peer}} StatusFrame
 * @typedef {{type: "sources", id: string, sources: Source[]}} SourcesFrame
 * @typedef {{type: "token", id: string, text: string}} TokenFrame
 * @typedef {{type: "peer", id: string, joint: boolean, position: number, reason: string}} PeerFrame
 * @typedef {{type: "error", id: string | null, error: Problem}} ErrorFrame
 * @typedef {SourcesFrame | TokenFrame | PeerFrame | Done | ErrorFrame} AnswerFrame
 * @typedef {StatusFrame | AnswerFrame} Frame
 *
 * @typedef {object} StoredFile
 * @property {string} id
 * @property {string} filename
 * @property {number} bytes
 * @property {number} created_at Unix seconds.
 * @property {"uploaded" | "processed" | "error"} status
 * @property {string | null} [status_details]
 *
 * @typedef {object} IngestionEvent
 * @property {"stored" | "parsed" | "chunked" | "embedded" | "indexed"} stage What has been done last.
 * @property {number} done
 * @property {number} total
 * @property {"uploaded" | "processed" | "error"} status
 * @property {string | null} message
 */

export {};

/**
 * Shapes that cross module borders: the frames of `/ws/chat` and the objects of the API.
 * Types only; nothing imports this file when the page runs.
 *
 * @typedef {"private" | "public"} Side
 *
 * @typedef {object} Source
 * @property {Side} side
 * @property {string} id Of the document.
 * @property {string} title
 * @property {string} text The passage.
 * @property {number} score How well it fits the question, in units of cosine.
 * @property {number} weight Share among the passages of its side, 0 to 1.
 * @property {number | null} [page] Counted from 1.
 * @property {number | null} [start] Where the passage is in the document's text, in characters.
 * @property {number | null} [end]
 * @property {boolean} [deleted] Its document is, and with it all but weight and score.
 * @property {string | null} [query] What was asked of a table, in SQL.
 * @property {number | null} [confidence] In percent, of text that was recognised in a picture.
 * @property {number | null} [citation] By which a model that writes may cite it.
 * @property {string} [around] The paragraph that it stands in, of the person's documents.
 *
 * @typedef {object} Folder One of the device's machine, whose files are documents.
 * @property {string} id
 * @property {string} path
 * @property {string} short The same, with ~ for the home folder.
 * @property {string} collection
 * @property {"starting" | "watched" | "missing" | "failing"} state
 * @property {Record<string, number>} files How many are in each state.
 *
 * @typedef {object} Peer
 * @property {"connected" | "connecting" | "refused"} state
 * @property {number | null} rtt_ms
 * @property {string} detail
 * @property {Localizable} [localizable]
 *
 * @typedef {Record<string, import("./strings.js").Localizable> | null} Localizable Which fields can be said in other languages.
 *
 * @typedef {{message: string, code?: string | null}} Problem
 *
 * @typedef {object} Block A piece of an answer as HTML that the device made safe.
 * @property {number} start Where its Markdown begins in the answer, in characters.
 * @property {string} text Its Markdown.
 * @property {string} html
 * @property {string} tail The end of `text` that is not in `html` yet.
 *
 * @typedef {object} TokenDetail
 * @property {number} position
 * @property {string} text
 * @property {number} start Character range in the answer's Markdown.
 * @property {number} end
 * @property {number | null} cloud The cloud's share in it, 0 to 1.
 * @property {number[]} documents The share of each source, in the sources' order.
 * @property {number | null} tv How far apart the two sides were, 0 to 1.
 *
 * @typedef {object} Done
 * @property {"stop" | "length" | "cancelled"} finish_reason
 * @property {{prompt_tokens: number, completion_tokens: number}} usage
 * @property {Record<string, any>} dragon Measurements; empty of an answer that was stopped.
 *
 * @typedef {object} Message
 * @property {string} id
 * @property {string | null} parent
 * @property {"user" | "assistant"} role
 * @property {string} text
 * @property {boolean} private
 * @property {number} [private_from] Begun openly, an answer was kept on the device from this character on.
 * @property {"writing" | "done" | "stopped" | "error"} state
 * @property {Block[]} blocks
 * @property {[number, number, string][]} [phrases] Of the device's own in the text: start, end, which.
 * @property {Source[]} [sources]
 * @property {boolean} [nothing_relevant] Documents were searched for, and none answers.
 * @property {boolean} [hasDocuments] Whether there were documents when it was asked; not kept.
 * @property {Source[]} [closest] The passages that come nearest where none answers.
 * @property {number} [unread_documents] How many could not be looked into yet.
 * @property {string} [away] Why the cloud, which was to be asked, took no part.
 * @property {number} [unsearched] How many parts of the cloud's corpus were down or late.
 * @property {{left_out: number, mode: string, cloud?: string, temperature: number, seed: number, documents?: string[] | null, model?: string}} [asked]
 * @property {Done} [done]
 * @property {Problem} [error]
 * @property {Localizable} [localizable]
 * @property {string[]} [ledgers] The answer's ids in the ledger of what left this device.
 *
 * @typedef {object} Conversation
 * @property {string} id
 * @property {string} title
 * @property {number} updated_at Unix seconds.
 * @property {string | null} leaf The end of the branch that is shown.
 * @property {string | null} [found] The place that a search found.
 * @property {string | null} [project]
 * @property {boolean} [pinned]
 * @property {boolean} [archived]
 * @property {boolean} private What is asked in it next stays on this device.
 *
 * @typedef {object} Project
 * @property {string} name Also that of its collection.
 * @property {string} instruction
 * @property {number} files
 * @property {number} conversations
 *
 * @typedef {object} StoredFile
 * @property {string} id
 * @property {string} filename
 * @property {number} bytes
 * @property {number} created_at Unix seconds.
 * @property {"uploaded" | "processed" | "error"} status
 * @property {string | null} [status_details] Why it could not be read, or what of it.
 * @property {Localizable} [localizable]
 * @property {string} [collection] Empty: none.
 * @property {number} [chunks]
 * @property {boolean} [shared] With the other keys of the device.
 * @property {string} [shared_by] Whose it is, if another key's: its name, "" being the device's own.
 *
 * @typedef {object} Model On this device, in a folder or behind a server.
 * @property {string} name
 * @property {"demo" | "file" | "directory" | "server"} kind
 * @property {string} where
 * @property {string} setting What `DRAGON_MODEL` is to say.
 * @property {number | null} size
 * @property {number | null} memory Bytes it is expected to take.
 * @property {number | null} context
 * @property {string} refusal Why it does not serve; empty where nothing speaks against it.
 * @property {string} hint
 * @property {boolean} wants_key A server's, before it says or does more.
 * @property {Localizable} [localizable]
 *
 * @typedef {object} View A part of a document's text.
 * @property {string} text
 * @property {string | null} html
 * @property {number} start
 * @property {number} end
 * @property {number} length Of the whole.
 * @property {number} page That of the passage that was asked for,
 * @property {number | null} pages of so many that can be drawn.
 *
 * @typedef {object} Offer A model of the hub.
 * @property {string} name
 * @property {number} size
 * @property {number} there How many of its bytes are here.
 * @property {number} memory Bytes it takes at most.
 * @property {boolean} fits Whether this device has that.
 * @property {string} licence
 * @property {string} good_at
 * @property {"none" | "part" | "coming" | "here"} stage
 * @property {string} problem Why it has not come.
 * @property {Localizable} [localizable]
 *
 * @typedef {object} Trial What a model did that was tried.
 * @property {string} question
 * @property {string} text That it was to quote from; empty of a model that writes.
 * @property {string} answer
 * @property {boolean} works
 * @property {number} words_per_s
 * @property {number | null} memory Bytes that DRAGON takes with it here; null: another program has the model.
 * @property {number} installed Bytes that there are.
 * @property {boolean | null} fits Whether it can write with the cloud, if that is known.
 * @property {string} peer That, in a sentence.
 * @property {Localizable} [localizable]
 *
 * @typedef {object} IngestionEvent
 * @property {string} stage What has been done last.
 * @property {number} done
 * @property {number} total
 * @property {"uploaded" | "processed" | "error"} status
 * @property {string | null} message
 * @property {Localizable} [localizable]
 * @property {number} percent Of the stage.
 * @property {number | null} seconds_left Of the stage, an estimate.
 */

export {};

// Package rdmaconn is one RDMA connection of a client.
//
// # Components
//
// A [Conn] is made of components. Each has its own state and lock, and names the other components
// that it uses.
//
//   - requestTable: an entry for each request that may be in flight; freeRequests: those that are
//     granted and not in use.
//   - sendQueue: makes messages, gives them numbers, and posts them.
//   - credits: the grant of the server, CREDIT messages, CANCEL messages that wait for a credit,
//     and the credit for INTERRUPT; receiveQueue: the receives for the answers.
//   - statusBlocks: which requests are polled; pace: the measured delays that decide it.
//   - receiver: takes answers and settles requests; delivery: the answers of one look.
//   - progress: which goroutine takes completions, and how it waits.
//   - watchdog: the time limits of requests.
//   - lifecycle: the first failure, and the goroutines that hold up the teardown.
//   - authentication: the exchange of AUTH, which gives the limits of the server.
//   - sealing: the keys and the memory of a sealed connection; opens answers, and seals messages.
//   - messageMemory, buffers: registered memory of messages, and of Buffers.
//   - traffic: the counters that the components share.
//
// A user of the connection takes a credit, prepares a [Ticket] with it, posts tickets, and waits
// for them at its [Arrivals].
//
// # The way of a request
//
// A request takes an entry of the request table, which is a credit.
//
//	free ──► pending ──► settling ──► free        the operation has the answer
//	           ▲            │
//	           │            ├──► abandoned ──► settling ──► free   the operation has left
//	           │            └──► dead             the connection is down
//	         post
//
// A message whose answer no operation waits for begins as abandoned. The goroutine that moves a
// request to settling owns it: it has the answer, or it takes the request back for an operation
// that leaves or whose time is up. A request that is abandoned keeps its entry, and with it the
// memory that a late answer may touch, until the answer is there or the connection is gone.
//
// On a sealed connection all answers are messages. A call that busy-polls looks for the message. The
// data of a small read is copied to memory that the server does not reach before the operation opens
// it. Other memory for the data of a read, parts of Buffers included, is registered for one request, and
// closed to the server before.
//
// How the answer comes is fixed when the request is posted: as a message, which ends a sleep on the
// completion queue, or as a status block in memory that is polled ([base.CompletionMode]).
//
// # Waiting
//
// One of the goroutines that wait is the poller of the connection: it busy-polls status blocks or
// sleeps on the completion queue, and delivers the answers of all. The others are parked until
// their answer is there or they become the poller. A goroutine whose context can end sleeps as the
// poller only after WakeOn, which wakes it at the end of the context. Only a Batch calls WakeOn.
// While no waiting goroutine may sleep as the poller, the reader goroutine of the connection is the
// poller. In mode Polling the reader also busy-polls, while goroutines wait that cannot be the poller.
//
// A poller that is about to sleep while status blocks are outstanding sends INTERRUPT, with the
// number of requests that it has not seen complete, and looks once more. The server answers as soon
// as it has completed a request that is not among them. A request that is posted while the poller
// sleeps does the same. So no wake-up is lost.
//
// # Goroutines
//
// Each connection has two: the reader, and the supervisor, which watches time limits and tears the
// connection down. Under load a third may post the messages that callers have queued. Close waits
// for all of them.
//
// # Mutexes
//
// In this order: lifecycle.mu (read side: Pin and Hold), BufferTable.mu, progress.mu, credits.mu,
// receiveQueue.mu, freeRequests.mu, sendQueue.mu, the locks of poller.Poller, buffers.mu,
// closeWatchers.mu. Only a pin is held while waiting for a peer.
//
// BufferTable pins connections with its lock held, against this order. So Pin does not wait for the
// teardown to unlock lifecycle.mu. Hold does wait: a goroutine calls it only without BufferTable.mu,
// and without a Pin or Hold of the same connection.
//
// Source: [LWIO §I/O Processing]
package rdmaconn

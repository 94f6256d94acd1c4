package stream

// urgentQueue holds urgent data that is not read, at most urgentLimit bytes in urgentParts
// parts, or one larger part. receiver.mu guards it.
type urgentQueue struct {
	parts fifo[[]byte]
	size  int // bytes of parts
}

// push appends a copy of p. It drops the oldest data to make room, and returns how many
// bytes it dropped.
func (u *urgentQueue) push(p []byte) (dropped int) {
	u.parts.push(append([]byte(nil), p...))
	u.size += len(p)
	for u.parts.len() > 1 && (u.size > urgentLimit || u.parts.len() > urgentParts) {
		n := len(*u.parts.at(0))
		dropped += n
		u.size -= n
		u.parts.pop()
	}
	return dropped
}

// pop copies from the oldest part to p, and returns the number of bytes. Precondition: the
// queue is not empty.
func (u *urgentQueue) pop(p []byte) int {
	part := u.parts.at(0)
	n := copy(p, *part)
	u.size -= n
	if *part = (*part)[n:]; len(*part) == 0 {
		u.parts.pop()
	}
	return n
}

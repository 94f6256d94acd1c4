package smbwire

// Empty is the body of messages without content: LOGOFF, TREE_DISCONNECT, ECHO in both
// directions, the CANCEL request, and the FLUSH and LOCK responses.
//
// Source: [MS-SMB2 2.2.7], [MS-SMB2 2.2.8], [MS-SMB2 2.2.11], [MS-SMB2 2.2.12], [MS-SMB2 2.2.18], [MS-SMB2 2.2.27],
// [MS-SMB2 2.2.28], [MS-SMB2 2.2.29], [MS-SMB2 2.2.30]
type Empty struct{}

const emptyFixed = 4

// AppendTo appends the body.
func (Empty) AppendTo(b []byte) []byte {
	return append(b, emptyFixed, 0, 0, 0)
}

// DecodeEmpty checks a body.
func DecodeEmpty(body []byte) (Empty, error) {
	return Empty{}, checkBody("message without content", body, emptyFixed, emptyFixed)
}

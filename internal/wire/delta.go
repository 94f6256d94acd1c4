package wire

// NotifyCredit is the status of a delta credit message, and of the answer to a
// CREDIT message that gives a credit up.
//
// Source: [LWIO §Credits], [OP-4], [OP-73]
const NotifyCredit = 0x1

// DeltaCredit is the message by which the server gives credits (n above 0) or takes
// them (below). It has the form of a status response with cookie 0. n is never 0.
//
// Source: [LWIO §Credits], [LWIO claim 24], [OP-29], [OP-72], [OP-73]
func DeltaCredit(n int32) StatusResponse {
	return StatusResponse{Information: uint32(n), Status: NotifyCredit}
}

// Delta reports whether the message is a delta credit message, and the number of
// credits.
//
// Source: [LWIO §Credits], [OP-29], [OP-73]
func (r StatusResponse) Delta() (n int32, ok bool) {
	return int32(r.Information), r.Cookie == 0 && r.Status == NotifyCredit
}

// CheckDelta is what a client demands of a response with cookie 0, when it has
// grant credits: that it is a delta credit message, and leaves at least one.
//
// Errors: *Error, which ends the connection.
//
// Source: [LWIO §Credits], [OP-69], [OP-72], [OP-73]
func (r StatusResponse) CheckDelta(grant int) error {
	n, ok := r.Delta()
	if !ok {
		return cut("delta credit", "cookie %d with status 0x%X", r.Cookie, r.Status)
	}
	if int64(grant)+int64(n) < 1 {
		return cut("delta credit", "%d credits are taken of %d", -int64(n), grant)
	}
	return nil
}

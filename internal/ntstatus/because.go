package ntstatus

// Because returns an error that is s and wraps its cause err: errors.Is and errors.As see
// both. Its text is the text of err.
func (s Status) Because(err error) error { return &caused{status: s, cause: err} }

type caused struct {
	status Status
	cause  error
}

func (e *caused) Error() string   { return e.cause.Error() }
func (e *caused) Unwrap() []error { return []error{e.status, e.cause} }

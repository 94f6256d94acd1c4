package smbwire

const appInstanceSize = 20

// AppInstance is the data of CreateContextAppInstance in a request: it names an instance of an
// application, whose opens by an earlier client make way.
//
// Source: [MS-SMB2 2.2.13.2.13]
type AppInstance struct {
	ID [16]byte
}

// AppendTo appends the data.
func (a *AppInstance) AppendTo(b []byte) []byte {
	b = le.AppendUint16(b, appInstanceSize)
	b = le.AppendUint16(b, 0)
	return append(b, a.ID[:]...)
}

// DecodeAppInstance decodes the data.
func DecodeAppInstance(b []byte) (AppInstance, error) {
	switch {
	case len(b) < appInstanceSize:
		return AppInstance{}, fault("application instance", "", ErrShort)
	case le.Uint16(b) != appInstanceSize:
		return AppInstance{}, fault("application instance", "StructureSize", ErrStructureSize)
	}
	return AppInstance{ID: [16]byte(b[4:])}, nil
}

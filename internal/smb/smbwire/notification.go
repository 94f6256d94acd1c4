package smbwire

const notificationFixed = 12

// NotifySessionClosed is the type of the notification that the server ends the session.
//
// Source: [MS-SMB2 2.2.44]
const NotifySessionClosed uint32 = 0

// DrainedMark is the Mark of a server that has answered every request that it has begun, "LWIO".
const DrainedMark uint32 = 0x4F49574C

// Notification is a message of the server that answers no request. Its message id is
// OplockBreakMessageID.
//
// Source: [MS-SMB2 2.2.44]
type Notification struct {
	Type uint32
	// Mark is a reserved field of NotifySessionClosed: DrainedMark, or 0. [OP-56]
	Mark uint32
}

// AppendTo appends the body.
func (n *Notification) AppendTo(b []byte) []byte {
	b = le.AppendUint16(b, notificationFixed)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint32(b, n.Type)
	return le.AppendUint32(b, n.Mark)
}

// DecodeNotification decodes the body of a NotifySessionClosed.
func DecodeNotification(body []byte) (Notification, error) {
	if err := checkBody("NOTIFICATION", body, notificationFixed, notificationFixed); err != nil {
		return Notification{}, err
	}
	return Notification{Type: le.Uint32(body[4:]), Mark: le.Uint32(body[8:])}, nil
}

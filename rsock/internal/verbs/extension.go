package verbs

import "lwio/rdma"

// GUID names an extension function as WSPIoctl's SIO_GET_EXTENSION_FUNCTION_POINTER does.
type GUID string

// The extension functions. The look-up returns a method expression, a function with the
// socket as its first parameter.
//
// Source: [WSD §2.2]
const (
	// WSPRegisterMemory is (*Socket).RegisterMemory.
	WSPRegisterMemory GUID = "C0B422F5-F58C-11D1-AD6C-00C04FA34A2D"
	// WSPDeregisterMemory is (*Socket).DeregisterMemory.
	WSPDeregisterMemory GUID = "C0B422F6-F58C-11D1-AD6C-00C04FA34A2D"
	// WSPRegisterRdmaMemory is (*Socket).RegisterRdmaMemory.
	WSPRegisterRdmaMemory GUID = "C0B422F7-F58C-11D1-AD6C-00C04FA34A2D"
	// WSPDeregisterRdmaMemory is (*Socket).DeregisterRdmaMemory.
	WSPDeregisterRdmaMemory GUID = "C0B422F8-F58C-11D1-AD6C-00C04FA34A2D"
	// WSPRdmaWrite is (*Socket).RdmaWrite.
	WSPRdmaWrite GUID = "C0B422F9-F58C-11D1-AD6C-00C04FA34A2D"
	// WSPRdmaRead is (*Socket).RdmaRead. It is optional: an adapter without rdma.CapRead
	// lacks it.
	WSPRdmaRead GUID = "C0B422FA-F58C-11D1-AD6C-00C04FA34A2D"
	// WSPMemoryRegistrationCacheCallback is optional.
	//
	// Exception: [WSD §6.1] the function is not offered. A Go program gets no notice
	// before memory is freed, so a registration cache could not be invalidated.
	WSPMemoryRegistrationCacheCallback GUID = "E5DA4AF8-D824-48CD-A799-6337A98ED2AF"
)

// Extension looks up an extension function. The result is the method expression in the
// comment of the GUID. The caller converts it by a type assertion.
//
// Errors: EOPNOTSUPP if the provider lacks the function, EINVAL for an unknown GUID.
//
// Source: [WSD §2.2], [WSD §2.4 SIO_GET_EXTENSION_FUNCTION_POINTER]
func (v *Service) Extension(id GUID) (any, error) {
	errno := EOPNOTSUPP
	switch id {
	case WSPRegisterMemory:
		return (*Socket).RegisterMemory, nil
	case WSPDeregisterMemory:
		return (*Socket).DeregisterMemory, nil
	case WSPRegisterRdmaMemory:
		return (*Socket).RegisterRdmaMemory, nil
	case WSPDeregisterRdmaMemory:
		return (*Socket).DeregisterRdmaMemory, nil
	case WSPRdmaWrite:
		return (*Socket).RdmaWrite, nil
	case WSPRdmaRead:
		if v.canRead() {
			return (*Socket).RdmaRead, nil
		}
	case WSPMemoryRegistrationCacheCallback:
	default:
		errno = EINVAL
	}
	return nil, &Error{Op: "look up extension", Object: string(id), Errno: errno}
}

// canRead reports whether the adapter has RDMA Read.
func (v *Service) canRead() bool { return v.info.Caps.Has(rdma.CapRead) }

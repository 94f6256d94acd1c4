package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"lwio/cmd/lwio/internal/bench"
)

// The values of settings. Each is a field of Options with the syntax of a flag; fromFile returns the text
// that Set takes for a value of TOML.
type (
	textValue    string
	pathValue    string
	addressValue string
	addressList  []string
	wordValue    struct {
		word  *string
		among []string
	}
	switchValue bool
	numberValue int
	sizeValue   int64
	timeValue   time.Duration
)

// amount is a value with bounds.
type amount interface {
	pflag.Value
	amount() int64
	format(int64) string
}

// Errors for values of the wrong kind in a file.
var (
	errText   = errors.New("a text in quotation marks is expected")
	errList   = errors.New("a list of texts is expected, as in [\"a\", \"b\"]")
	errSwitch = errors.New("true or false is expected, without quotation marks")
	errNumber = errors.New("an integer is expected, without quotation marks")
	errSize   = errors.New("a size is a number of bytes, or of \"k\", \"m\" or \"g\", as in \"64m\"")
	errTime   = errors.New("a time is a number with a unit, as in \"90s\", \"5m\" or \"0s\"")
)

// fromFile returns the text that Set of v takes for a value of TOML.
func fromFile(v pflag.Value, value any) (string, error) {
	text, isText := value.(string)
	switch v.(type) {
	case *switchValue:
		if b, ok := value.(bool); ok {
			return strconv.FormatBool(b), nil
		}
		return "", errSwitch
	case *numberValue:
		if n, ok := value.(int64); ok {
			return strconv.FormatInt(n, 10), nil
		}
		return "", errNumber
	case *sizeValue:
		if n, ok := value.(int64); ok {
			return strconv.FormatInt(n, 10), nil
		}
		if !isText {
			return "", errSize
		}
		return text, nil
	case *addressList, *ProviderList, *UIDs:
		return listText(value)
	case *timeValue:
		if !isText {
			return "", errTime
		}
		return text, nil
	}
	if !isText {
		return "", errText
	}
	return text, nil
}

// listText returns the text of a flag for a list of texts.
func listText(value any) (string, error) {
	list, ok := value.([]any)
	if !ok {
		return "", errList
	}
	var words []string
	for _, v := range list {
		word, ok := v.(string)
		if !ok || strings.Contains(word, ",") {
			return "", errList
		}
		words = append(words, word)
	}
	return strings.Join(words, ","), nil
}

// Set takes any text.
func (v *textValue) Set(text string) error { *v = textValue(text); return nil }
func (v *textValue) String() string        { return string(*v) }

// Type is the name of the value in the help.
func (v *textValue) Type() string { return "text" }

// Set takes a path.
func (v *pathValue) Set(text string) error { *v = pathValue(text); return nil }
func (v *pathValue) String() string        { return string(*v) }

// Type is the name of the value in the help.
func (v *pathValue) Type() string { return "path" }

// Set takes a host and a port, or "".
func (v *addressValue) Set(text string) error {
	if _, _, err := net.SplitHostPort(text); text != "" && err != nil {
		return err
	}
	*v = addressValue(text)
	return nil
}
func (v *addressValue) String() string { return string(*v) }

// Type is the name of the value in the help.
func (v *addressValue) Type() string { return "address" }

// Set adds IP addresses with ports, separated by commas.
func (v *addressList) Set(text string) error {
	if text == "" {
		*v = nil
		return nil
	}
	for _, at := range strings.Split(text, ",") {
		if _, err := netip.ParseAddrPort(at); err != nil {
			return err
		}
		*v = append(*v, at)
	}
	return nil
}
func (v *addressList) String() string { return strings.Join(*v, ",") }

// Type is the name of the value in the help.
func (v *addressList) Type() string { return "addresses" }

// noProvider stands for no provider.
const noProvider = "none"

// ProviderList are the names of RDMA providers, by preference. It is the value of a flag.
type ProviderList []string

// Set takes names of providers separated by commas, or "none".
func (v *ProviderList) Set(text string) error {
	if *v = nil; text == noProvider || text == "" {
		return nil
	}
	for _, name := range strings.Split(text, ",") {
		if slices.Contains(*v, name) {
			return fmt.Errorf("%s is named twice", name)
		}
		*v = append(*v, name)
	}
	return nil
}

// String returns the names as Set takes them.
func (v *ProviderList) String() string {
	if len(*v) == 0 {
		return noProvider
	}
	return strings.Join(*v, ",")
}

// Type is the name of the value in the help.
func (v *ProviderList) Type() string { return "providers" }

// Set takes one of the words, or "".
func (v wordValue) Set(text string) error {
	if text != "" && !slices.Contains(v.among, text) {
		return fmt.Errorf("it is %s or %s", strings.Join(v.among[:len(v.among)-1], ", "), v.among[len(v.among)-1])
	}
	*v.word = text
	return nil
}
func (v wordValue) String() string { return *v.word }

// Type is the name of the value in the help.
func (v wordValue) Type() string { return "word" }

// Set takes true or false.
func (v *switchValue) Set(text string) error {
	b, err := strconv.ParseBool(text)
	*v = switchValue(b)
	return err
}
func (v *switchValue) String() string { return strconv.FormatBool(bool(*v)) }

// Type is the name of the value in the help.
func (v *switchValue) Type() string { return "bool" }

// Set takes an integer.
func (v *numberValue) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return errors.New("an integer is expected")
	}
	*v = numberValue(n)
	return nil
}
func (v *numberValue) String() string        { return strconv.Itoa(int(*v)) }
func (v *numberValue) amount() int64         { return int64(*v) }
func (v *numberValue) format(n int64) string { return strconv.FormatInt(n, 10) }

// Type is the name of the value in the help.
func (v *numberValue) Type() string { return "int" }

// Set takes a size above 0, or "" for 0.
func (v *sizeValue) Set(text string) error {
	if text == "" {
		*v = 0
		return nil
	}
	n, err := bench.ParseSize(text)
	if err != nil {
		return errSize
	}
	*v = sizeValue(n)
	return nil
}

func (v *sizeValue) String() string {
	if *v == 0 {
		return ""
	}
	return bench.FormatSize(int64(*v))
}
func (v *sizeValue) amount() int64         { return int64(*v) }
func (v *sizeValue) format(n int64) string { return bench.FormatSize(n) }

// Type is the name of the value in the help.
func (v *sizeValue) Type() string { return "size" }

// Set takes a time that is not negative.
func (v *timeValue) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return errTime
	}
	*v = timeValue(d)
	return nil
}
func (v *timeValue) String() string        { return time.Duration(*v).String() }
func (v *timeValue) amount() int64         { return int64(*v) }
func (v *timeValue) format(n int64) string { return time.Duration(n).String() }

// Type is the name of the value in the help.
func (v *timeValue) Type() string { return "time" }

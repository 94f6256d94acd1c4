package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"lwio"
	"lwio/cmd/lwio/internal/config"
)

// Exit statuses of the command.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// app is one run of the command: its streams, its environment, and the flags
// of all commands.
type app struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	env    func(string) string
	args   []string // of the command line

	passwordFile string
	requireRDMA  bool
	allowMD5     bool
	timeout      time.Duration
	settings     config.Options // of serve; the shared ones are of every command

	instance  string        // Config.AppInstance of clients
	reconnect time.Duration // Config.ReconnectTimeout of clients
}

// usageError is a mistake on the command line; it ends the command with exitUsage.
type usageError struct{ error }

// Unwrap returns the cause.
func (e usageError) Unwrap() error { return e.error }

// reported is the exit status of another process that ran the command and has reported its failure itself.
type reported int

// Error says the status.
func (r reported) Error() string { return fmt.Sprintf("exit status %d", int(r)) }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// run executes the command line and returns the exit status.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	a.args = args
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if status := reported(0); errors.As(err, &status) {
		return int(status)
	}
	var usage usageError
	isUsage := errors.As(err, &usage)
	for _, text := range messages(err) {
		fmt.Fprintln(a.stderr, "lwio: "+printable(redacted(unprefixed(text))))
	}
	if isUsage {
		fmt.Fprintln(a.stderr, "Run 'lwio help' for how to use it.")
		return exitUsage
	}
	return exitFailure
}

// unprefixed removes the names of packages before each error in a text.
func unprefixed(text string) string {
	for _, p := range [...]string{"lwio: ", "vfs: "} {
		text = strings.ReplaceAll(strings.TrimPrefix(text, p), ": "+p, ": ")
	}
	return text
}

// passwordInURL matches a URL up to its password, and the password.
var passwordInURL = regexp.MustCompile(`(?i)(` + lwio.Scheme + `://[^\s:/@]*):[^\s/@]*@`)

// redacted replaces the passwords of URLs in a text. Parts of the command that know a URL never show its
// password; this covers a URL at a place of the command line where none belongs.
func redacted(text string) string { return passwordInURL.ReplaceAllString(text, "$1:xxxxx@") }

// messages are the texts of an error: one for each joined error.
func messages(err error) []string {
	joined, ok := err.(interface{ Unwrap() []error }) // errors wrapped deeper are part of one text
	if !ok {
		return []string{err.Error()}
	}
	var all []string
	for _, e := range joined.Unwrap() {
		all = append(all, messages(e)...)
	}
	if strings.Join(all, "\n") != err.Error() {
		return []string{err.Error()} // one text that wraps several errors
	}
	return all
}

// printable replaces control characters and invalid UTF-8 by \x and two digits: a name with
// control characters could change the terminal, or look like another message.
func printable(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		switch r, n := utf8.DecodeRuneInString(s); {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, "\\x%02x", s[0])
			s = s[1:]
		case unicode.IsControl(r):
			fmt.Fprintf(&b, "\\x%02x", r)
			s = s[n:]
		default:
			b.WriteRune(r)
			s = s[n:]
		}
	}
	return b.String()
}

// root builds the tree of commands.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "lwio",
		Short: "Remote file I/O over RDMA, with almost no CPU of the client's own",
		Long: `lwio serves directories and works with the files of such servers over RDMA. Commands and
URLs are the same over every transport that two hosts have in common.

A URL is lwio://USER:PASSWORD@HOST:PORT/SHARE/PATH; '?provider=shm', '?provider=iwarp'
or '?provider=smb' chooses the transport, '?connections=4' makes 4 RDMA connections, '?app=NAME'
closes the files that an earlier process with that name left open, and '?auth=kerberos' uses the
credential cache of kinit, without a password.
A password may come from --password-file, LWIO_PASSWORD_FILE, LWIO_PASSWORD, or a line
lwio://USER:PASSWORD@HOST:PORT of ~/.config/lwio/credentials instead. These files must have mode 0600.`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Args:              cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q", args[0])
			}
			return cmd.Help()
		},
	}
	pf := root.PersistentFlags()
	pf.StringVar(&a.passwordFile, "password-file", "", "file whose first line is the password")
	a.settings = config.Defaults(providerNames(lwio.DefaultProviders()))
	config.Register(pf, &a.settings, true)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(
		a.serveCommand(), a.lsCommand(), a.catCommand(), a.cpCommand(), a.statCommand(),
		a.rmCommand(), a.mkdirCommand(), a.mvCommand(), a.mountCommand(), a.providersCommand(), a.doctorCommand(), a.benchCommand(),
		a.proxyCommand(), a.nbdCommand(), a.userCommand(), a.demoCommand(), a.versionCommand(), a.manualCommand(),
	)
	return root
}

// clientFlags adds the flags of a command that dials a server.
func (a *app) clientFlags(cmd *cobra.Command) *cobra.Command {
	f := cmd.Flags()
	f.BoolVar(&a.requireRDMA, "require-rdma", false, "fail rather than fall back to SMB")
	f.BoolVar(&a.allowMD5, "allow-md5", false, "accept a server that signs with unkeyed MD5 only (no protection)")
	a.timeout = 30 * time.Second
	f.Var((*positive)(&a.timeout), "timeout", "time limit of connecting, and of each operation; the command ends when one expires")
	return cmd
}

// positive is the value of a flag: a duration above 0.
type positive time.Duration

// Set takes the text of the command line.
func (p *positive) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	if d <= 0 {
		return errors.New("it must be more than 0")
	}
	*p = positive(d)
	return nil
}

// String is the value as on the command line.
func (p *positive) String() string { return time.Duration(*p).String() }

// Type is the name of the value in the help.
func (p *positive) Type() string { return "duration" }

// exactArgs checks the number of arguments.
func exactArgs(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usagef("%s takes %s", cmd.Name(), what)
		}
		return nil
	}
}

// minArgs checks that there is at least one argument.
func minArgs(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("%s takes %s", cmd.Name(), what)
		}
		return nil
	}
}

// logger logs to standard error until ctx ends. Later failures follow from the end of ctx,
// which the message of the command names.
func (a *app) logger(ctx context.Context) *slog.Logger {
	var level slog.Leveler = warnUntil{ctx}
	if a.settings.Verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level}))
}

// warnUntil is the level of warnings until a context ends, and then above all levels.
type warnUntil struct{ ctx context.Context }

// Level returns the least level that is logged now.
func (w warnUntil) Level() slog.Level {
	if w.ctx.Err() != nil {
		return math.MaxInt
	}
	return slog.LevelWarn
}

// isURL reports whether an argument names an object on a server.
func isURL(arg string) bool {
	scheme, _, ok := strings.Cut(arg, "://")
	return ok && strings.EqualFold(scheme, lwio.Scheme)
}

// withQuery sets a parameter of a URL; "" changes nothing.
func withQuery(arg, name, value string) string {
	if value == "" {
		return arg
	}
	base, query, _ := strings.Cut(arg, "?")
	kept := []string{name + "=" + value}
	for _, q := range strings.Split(query, "&") {
		if q != "" && !strings.HasPrefix(q, name+"=") {
			kept = append(kept, q)
		}
	}
	return base + "?" + strings.Join(kept, "&")
}

// target parses the URL of an argument.
func target(arg string) (*lwio.Target, error) {
	t, err := lwio.ParseURL(arg)
	if err != nil {
		return nil, usageError{err}
	}
	return t, nil
}

// clientConfig returns the configuration of a client, without a log.
func (a *app) clientConfig(id identity) *lwio.Config {
	return &lwio.Config{
		User:        id.user,
		Password:    id.password,
		Kerberos:    id.tickets,
		Providers:   a.providers(),
		RequireRDMA: a.requireRDMA,
		AllowMD5:    a.allowMD5,
		Timeout:     a.timeout,
		AppInstance: a.instance,

		ReconnectTimeout: a.reconnect,
	}
}

// dial connects to the share of a URL. It reports a fallback to SMB on standard error,
// unless the URL asks for SMB.
func (a *app) dial(ctx context.Context, arg string) (*lwio.Client, *lwio.Target, error) {
	t, err := target(arg)
	if err != nil {
		return nil, nil, err
	}
	id, err := a.logon().identity(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	cfg := a.clientConfig(id)
	cfg.Logger = a.logger(ctx)
	c, err := lwio.Dial(ctx, arg, cfg)
	if err != nil {
		return nil, nil, err
	}
	if tr := c.Transport(); !tr.RDMA() && t.Provider != lwio.TransportSMB {
		fmt.Fprintf(a.stderr, "lwio: %s: using SMB, not RDMA: %s\n", t, tr.Reason)
	}
	return c, t, nil
}

// withTarget dials the server of a URL, calls f with the connection, and closes it.
func (a *app) withTarget(ctx context.Context, arg string, f func(*lwio.Client, *lwio.Target) error) error {
	c, t, err := a.dial(ctx, arg)
	if err != nil {
		return err
	}
	return errors.Join(f(c, t), c.Close())
}

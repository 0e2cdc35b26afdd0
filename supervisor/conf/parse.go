// SPDX-License-Identifier: Apache-2.0

package conf

import (
	"errors"
	"strings"
)

// Exit says that the program must end at once: what to print, and with which status.
type Exit struct {
	Code           int
	Stdout, Stderr string // complete, with line ends
}

func (x *Exit) Error() string { return x.Stderr }

// Parse reads the command line, left to right, as getopt_long(3) with a leading "+" does: clusters of short options,
// attached values, --name=value, unambiguous abbreviations; the first word that is no option, or "--", ends the options.
//
//	in:     argv with the program's name, which chooses the mode
//	out:    exactly one of the two
//	errors: an Exit with status 1; --help and --version give one with status 0 when they are reached
//	source: spec cli 1.2, 2, 3.6
func Parse(argv []string) (*Options, *Exit) {
	o := &Options{MTU: -1}
	if err := o.setMode(argv); err != nil {
		return nil, fatal(err)
	}
	p := parser{o: o, table: table(), args: argv[1:]}
	for {
		more, err := p.next()
		if err != nil {
			return nil, fatal(err)
		}
		if !more {
			break
		}
	}
	o.Args = p.args
	if err := o.check(); err != nil {
		return nil, fatal(err)
	}
	return o, nil
}

func fatal(err error) *Exit {
	var x *Exit
	if errors.As(err, &x) {
		return x
	}
	return &Exit{Code: 1, Stderr: err.Error() + "\n"}
}

// setMode chooses by the base name of argv[0]: it contains pasta, else passt.
func (o *Options) setMode(argv []string) error {
	if len(argv) == 0 {
		return errorf("Cannot find out the program's name: no argv[0]")
	}
	o.Prog = argv[0]
	base := o.Prog[strings.LastIndexByte(o.Prog, '/')+1:]
	switch {
	case strings.Contains(base, "pasta"):
		o.Mode = ModePasta
	case strings.Contains(base, "passt"):
		o.Mode = ModePasst
	default:
		return errorf("Cannot choose by the name %q: call this program as passt or pasta", base)
	}
	return nil
}

// check finds what does not go together once all words are read.
func (o *Options) check() error {
	pid, isPid, err := o.pid()
	switch {
	case o.lastLen && o.Netmask != 0:
		return errorf("Prefix length given twice, in the address and as netmask")
	case o.Mode == ModePasst && len(o.Args) > 0:
		return errorf("Extra non-option argument: %s", o.Args[0])
	case o.Mode == ModePasst:
		return nil
	case o.HostLoToNsLo && o.NoSplice:
		return errorf("--host-lo-to-ns-lo and --no-splice exclude each other")
	case o.SpliceOnly && o.NoSplice:
		return errorf("--splice-only and --no-splice exclude each other")
	case o.NetNS != "" && len(o.Args) > 0:
		return errorf("Both --netns and a PID or command given: %s", o.Args[0])
	case err != nil:
		return err
	case isPid && pid == 0:
		return errorf("Invalid PID: %s", o.Args[0])
	case o.UserNS != "" && o.spawns():
		return errorf("--userns needs --netns or a PID: a command gets a new user namespace")
	}
	return nil
}

// parser walks over the words.
type parser struct {
	o       *Options
	table   []option
	args    []string // not yet read
	cluster string   // rest of a word of short options
}

// next handles one option; false at the end of the options.
func (p *parser) next() (bool, error) {
	if p.cluster != "" {
		return true, p.shortOption()
	}
	if len(p.args) == 0 {
		return false, nil
	}
	word := p.args[0]
	switch {
	case word == "--":
		p.args = p.args[1:]
		return false, nil
	case len(word) < 2 || word[0] != '-':
		return false, nil
	}
	p.args = p.args[1:]
	if long, ok := strings.CutPrefix(word, "--"); ok {
		return true, p.longOption(long)
	}
	p.cluster = word[1:]
	return true, p.shortOption()
}

func (p *parser) shortOption() error {
	c := p.cluster[0]
	p.cluster = p.cluster[1:]
	for i := range p.table {
		opt := &p.table[i]
		if opt.short != c {
			continue
		}
		value := ""
		if opt.arg != "" {
			switch {
			case p.cluster != "":
				value, p.cluster = p.cluster, ""
			case len(p.args) > 0:
				value, p.args = p.args[0], p.args[1:]
			default:
				return p.usage("option requires an argument -- '" + string([]byte{c}) + "'")
			}
		}
		return p.apply(opt, value)
	}
	return p.usage("invalid option -- '" + string([]byte{c}) + "'")
}

// longOption reads text without its dashes: name or name=value.
func (p *parser) longOption(text string) error {
	name, value, attached := strings.Cut(text, "=")
	opt, others := p.find(name)
	switch {
	case opt == nil && len(others) > 0:
		return p.usage("option '--" + text + "' is ambiguous; possibilities: '--" + strings.Join(others, "' '--") + "'")
	case opt == nil:
		return p.usage("unrecognized option '--" + text + "'")
	case opt.arg == "" && attached:
		return p.usage("option '--" + opt.long + "' doesn't allow an argument")
	case opt.arg != "" && !attached:
		if len(p.args) == 0 {
			return p.usage("option '--" + opt.long + "' requires an argument")
		}
		value, p.args = p.args[0], p.args[1:]
	}
	return p.apply(opt, value)
}

// find gives the option of that name, or the only one that begins so; else the names of all that begin so.
func (p *parser) find(name string) (opt *option, others []string) {
	for i := range p.table {
		switch t := &p.table[i]; {
		case t.long == name:
			return t, nil
		case strings.HasPrefix(t.long, name):
			opt, others = t, append(others, t.long)
		}
	}
	if len(others) == 1 {
		return opt, nil
	}
	return nil, others
}

func (p *parser) apply(opt *option, value string) error {
	if opt.modes&p.o.Mode == 0 {
		return errorf("Option --%s is not for %s", opt.long, p.o.Ident())
	}
	return opt.set(p.o, value)
}

// usage is an error of the command line's form: one line as the C library words it, then the usage text.
func (p *parser) usage(text string) error {
	return &Exit{Code: 1, Stderr: p.o.Prog + ": " + text + "\n" + usage(p.o.Mode)}
}

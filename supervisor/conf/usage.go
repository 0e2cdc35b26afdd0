// SPDX-License-Identifier: Apache-2.0

package conf

import "strings"

// column is where the help of an option begins.
const column = 26

// usage is the text of --help, also printed behind an error of form.
func usage(m Mode) string {
	var b strings.Builder
	if m == ModePasst {
		b.WriteString("Usage: passt [OPTION]...\n\nConnect a virtual machine to the host's network.\n\nOptions:\n")
	} else {
		b.WriteString("Usage: pasta [OPTION]... [COMMAND] [ARGS]...\n" +
			"       pasta [OPTION]... PID\n" +
			"       pasta [OPTION]... --netns [PATH|NAME]\n\n" +
			"Without PID or --netns, run the given command or a shell in a new network and\n" +
			"user namespace, and connect it to the host's network.\n\nOptions:\n")
	}
	for _, t := range table() {
		if t.modes&m != 0 {
			t.write(&b)
		}
	}
	return b.String()
}

// write prints one option with its help.
func (t *option) write(b *strings.Builder) {
	head := "  " + t.head()
	lines := strings.Split(t.help, "\n")
	if len(head) >= column-1 {
		b.WriteString(head + "\n")
		head = ""
	}
	for i, l := range lines {
		if i > 0 {
			b.WriteString("      " + l + "\n")
			continue
		}
		b.WriteString(head + strings.Repeat(" ", column-len(head)) + l + "\n")
	}
}

// head is the option's heading in the help and in the manual: "-m, --mtu MTU".
func (t *option) head() string {
	s := "--" + t.long
	if t.short != 0 {
		s = "-" + string(rune(t.short)) + ", " + s
	}
	if t.arg != "" {
		s += " " + t.arg
	}
	return s
}

func versionText(o *Options) string {
	return o.Ident() + " " + Version + "\n" +
		"Licence: Apache License 2.0 <https://www.apache.org/licenses/LICENSE-2.0>\n" +
		"This is free software: you are free to change and redistribute it.\n" +
		"There is NO WARRANTY, to the extent permitted by law.\n"
}

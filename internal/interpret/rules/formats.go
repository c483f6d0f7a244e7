// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/util/validation"
)

// textFormat tells what is wrong with a text, in the words of those who made
// the format; nothing if it has it.
type textFormat struct {
	name   string
	wrongs func(string) []string
}

// formats declares the named formats of texts.
func formats() []cel.EnvOption {
	kind := cel.OpaqueType("kubernetes.NamedFormat")
	d := &declaration{}
	all := map[string]ref.Val{}
	for name, wrongs := range namedFormats() {
		f := &textFormat{name: name, wrongs: wrongs}
		value := opaque[*textFormat]{kind: kind, value: f, text: name, equal: func(a, b *textFormat) bool { return a.name == b.name }}
		all[name] = value
		d.options = append(d.options, cel.Function("format."+name,
			cel.Overload("format_"+name, nil, kind, cel.FunctionBinding(func(...ref.Val) ref.Val { return value }))))
	}
	d.global("format.named", "format_named", cel.StringType, cel.OptionalType(kind), func(name ref.Val) ref.Val {
		text, ok := name.(types.String)
		if !ok {
			return types.MaybeNoSuchOverloadErr(name)
		}
		if value, ok := all[string(text)]; ok {
			return types.OptionalOf(value)
		}
		return types.OptionalNone
	})
	d.with("validate", "format_validate", kind, cel.StringType, cel.OptionalType(cel.ListType(cel.StringType)), validate)
	return d.options
}

func validate(a, b ref.Val) ref.Val {
	f, ok := a.(opaque[*textFormat])
	if !ok {
		return types.MaybeNoSuchOverloadErr(a)
	}
	text, ok := b.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(b)
	}
	wrongs := []string{fmt.Sprintf("a text of more than %d bytes is not validated", formattedBytesMax)}
	if len(text) <= formattedBytesMax {
		wrongs = f.value.wrongs(string(text))
	}
	if len(wrongs) == 0 {
		return types.OptionalNone
	}
	return types.OptionalOf(types.NewStringList(types.DefaultTypeAdapter, wrongs))
}

func namedFormats() map[string]func(string) []string {
	uuid := regexp.MustCompile(`^[0-9A-Fa-f]{8}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{12}$`)
	prefix := func(of func(string) []string) func(string) []string {
		return func(text string) []string { return of(strings.TrimSuffix(text, "-")) }
	}
	check := func(valid func(string) bool, wrong string) func(string) []string {
		return func(text string) []string {
			if valid(text) {
				return nil
			}
			return []string{wrong}
		}
	}
	return map[string]func(string) []string{
		"dns1123Label":           validation.IsDNS1123Label,
		"dns1123Subdomain":       validation.IsDNS1123Subdomain,
		"dns1035Label":           validation.IsDNS1035Label,
		"qualifiedName":          validation.IsQualifiedName,
		"labelValue":             validation.IsValidLabelValue,
		"dns1123LabelPrefix":     prefix(validation.IsDNS1123Label),
		"dns1123SubdomainPrefix": prefix(validation.IsDNS1123Subdomain),
		"dns1035LabelPrefix":     prefix(validation.IsDNS1035Label),
		"uri":                    check(func(s string) bool { _, err := readURL(s); return err == nil }, "it is not a URI"),
		"uuid":                   check(uuid.MatchString, "it is not a UUID"),
		"byte": check(func(s string) bool {
			_, err := base64.StdEncoding.DecodeString(s)
			return err == nil
		}, "it is not base64"),
		"date": check(func(s string) bool {
			_, err := time.Parse(time.DateOnly, s)
			return err == nil
		}, "it is not a date such as 2006-01-02"),
		"datetime": check(func(s string) bool {
			_, err := time.Parse(time.RFC3339, s)
			return err == nil
		}, "it is not a time such as 2006-01-02T15:04:05Z"),
	}
}

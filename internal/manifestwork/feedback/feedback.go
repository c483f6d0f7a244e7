// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package feedback reads the fields selected by the feedback rules of a
// ManifestWork from an object.
//
// It is pure, and bounded in time and memory whatever the rules and the object
// are; the limits are constants here and in package jsonpath.
package feedback

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/manifestwork/budget"
	"github.com/capstan-io/capstan/internal/manifestwork/jsonpath"
)

const (
	// MaxRawJSONDefault is the size in bytes up to which a list or an object is
	// reported, unless ValueOptions say otherwise.
	MaxRawJSONDefault = 1024
	// ResultBytesMax is the size in bytes of all values of one object together.
	ResultBytesMax = 128 << 10
	// MessagesMax is the number of messages about one object.
	MessagesMax = 20
	// VisitsMax is the number of values that the paths for one object may visit,
	// all together. An object of 1 MiB has some 50,000.
	VisitsMax = 1_000_000
	// depthMax is how deep an object is that is reported as JSON.
	depthMax = 128
)

// ValueOptions tell how values are reported.
type ValueOptions struct {
	// RawJSON reports lists, objects and numbers with a fraction as JSON text
	// (feature gate RawFeedbackJsonString).
	RawJSON bool
	// MaxRawJSON is the size in bytes of such a text; 0, and more than it, is
	// MaxRawJSONDefault: a status has many values.
	MaxRawJSON int
}

// CompiledFeedbackRules has feedback rules in a form that is quick to use. It does not change
// and may be used by several goroutines.
type CompiledFeedbackRules struct {
	rules []compiledRule
}

// compiledRule is one rule, or what is wrong with it.
type compiledRule struct {
	wellKnown bool
	paths     []namedPath
	problem   string
}

type namedPath struct {
	name, version string
	path          *jsonpath.Path
	problem       string
}

// CompileFeedbackRules prepares rules. It never fails: what is wrong with a rule is a
// message of ReadValues.
func CompileFeedbackRules(rules []workv1.FeedbackRule) *CompiledFeedbackRules {
	set := &CompiledFeedbackRules{rules: make([]compiledRule, 0, len(rules))}
	for i := range rules {
		rule := &rules[i]
		var c compiledRule
		switch rule.Type {
		case workv1.FeedbackTypeWellKnownStatus:
			c.wellKnown = true
		case workv1.FeedbackTypeJSONPaths:
			for _, p := range rule.JSONPaths {
				named := namedPath{name: p.Name, version: p.Version}
				path, err := jsonpath.ParsePath(p.Path)
				if err != nil {
					named.problem = fmt.Sprintf("value %q: %v", p.Name, err)
				}
				named.path = path
				c.paths = append(c.paths, named)
			}
		default:
			c.problem = fmt.Sprintf("feedback rule %d: unknown type %q; use WellKnownStatus or JSONPaths", i, rule.Type)
		}
		set.rules = append(set.rules, c)
	}
	return set
}

// FoundValues is what rules find in an object.
type FoundValues struct {
	// Values are in the order of the rules. Each name appears once.
	Values []workv1.FeedbackValue
	// Unread has one message for each thing that could not be read.
	Unread []string
	// Absent are the paths that match nothing, each with the name of its value. That is no
	// fault: many fields are absent until there is something to say, or while they are zero.
	Absent []string
}

// ReadValues returns what the rules find in the object. Kinds know the well-known values; what
// paths cost is taken from the budget of the work.
func (s *CompiledFeedbackRules) ReadValues(object *unstructured.Unstructured, kinds interpret.Chain, left *budget.Budget, options ValueOptions) FoundValues {
	if object == nil || len(s.rules) == 0 {
		return FoundValues{}
	}
	r := valueReader{object: object, options: options, kinds: kinds, visits: left.NewObjectMeter(VisitsMax), bytes: ResultBytesMax}
	if r.options.MaxRawJSON <= 0 || r.options.MaxRawJSON > MaxRawJSONDefault {
		r.options.MaxRawJSON = MaxRawJSONDefault
	}
	for i := range s.rules {
		rule := &s.rules[i]
		switch {
		case rule.problem != "":
			r.addUnread(rule.problem)
		case rule.wellKnown:
			r.wellKnown()
		default:
			for j := range rule.paths {
				r.readPath(&rule.paths[j])
			}
		}
	}
	return FoundValues{Values: r.values, Unread: r.unread.allMessages(), Absent: r.absent.allMessages()}
}

// valueReader collects the values of one object.
type valueReader struct {
	object  *unstructured.Unstructured
	options ValueOptions
	kinds   interpret.Chain
	visits  *budget.ValueMeter // that paths may still make

	values []workv1.FeedbackValue
	unread messages
	absent messages
	bytes  int // that values may still take
}

// messages are up to MessagesMax texts, and the number of those that are too many.
type messages struct {
	texts  []string
	unsaid int
}

func (m *messages) addMessage(text string) {
	if len(m.texts) >= MessagesMax {
		m.unsaid++
		return
	}
	m.texts = append(m.texts, text)
}

func (m *messages) allMessages() []string {
	if m.unsaid == 0 {
		return m.texts
	}
	return append(m.texts, fmt.Sprintf("and %d more", m.unsaid))
}

func (r *valueReader) addUnread(message string) { r.unread.addMessage(message) }

func (r *valueReader) wellKnown() {
	kind := r.object.GroupVersionKind()
	report := r.kinds.Operations(kind).Values
	if report == nil {
		r.addUnread(fmt.Sprintf("%s has no well-known values; select the fields with a rule of type JSONPaths", describeKind(kind)))
		return
	}
	for _, v := range report(r.object.Object) {
		if v.Value != nil {
			r.addValue(v.Name, v.Value)
		}
	}
}

func (r *valueReader) readPath(p *namedPath) {
	if p.problem != "" {
		r.addUnread(p.problem)
		return
	}
	if version := r.object.GroupVersionKind().Version; p.version != "" && p.version != version {
		r.addUnread(fmt.Sprintf("value %q: its path is for version %s, but the object has version %s", p.name, p.version, version))
		return
	}
	hits, err := p.path.FindValues(r.object.Object, r.visits)
	if err != nil {
		r.addUnread(fmt.Sprintf("value %q: path %s: %v", p.name, p.path, err))
		return
	}
	switch {
	case len(hits) == 0, len(hits) == 1 && hits[0] == nil:
		r.absent.addMessage(fmt.Sprintf("%s (value %q)", p.path, p.name))
	case len(hits) > 1 && r.options.RawJSON:
		r.addValue(p.name, hits)
	default:
		r.addValue(p.name, hits[0])
	}
}

// addValue reports a value, if it can be reported.
func (r *valueReader) addValue(name string, found any) {
	if found == nil {
		return
	}
	for i := range r.values {
		if r.values[i].Name == name {
			r.addUnread(fmt.Sprintf("value %q: another rule already reports a value of this name; the first one applies", name))
			return
		}
	}
	value, size, problem := fieldValue(found, r.options)
	switch {
	case problem != "":
		r.addUnread(fmt.Sprintf("value %q: %s", name, problem))
	case size+len(name) > r.bytes:
		r.addUnread(fmt.Sprintf("value %q: the values of an object are limited to %d bytes, and this one exceeds the limit", name, ResultBytesMax))
	default:
		r.bytes -= size + len(name)
		r.values = append(r.values, workv1.FeedbackValue{Name: name, FieldValue: value})
	}
}

func describeKind(kind schema.GroupVersionKind) string {
	if kind.Kind == "" {
		return "an object without a kind"
	}
	if kind.Group == "" {
		return "kind " + kind.Kind
	}
	return "kind " + kind.Kind + " of group " + kind.Group
}

// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/interpreters"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
)

// errUnsupported marks options of the API that this agent does not know.
var errUnsupported = errors.New("the object is not applied")

// ManifestItem is one manifest, and what was done about it.
type ManifestItem struct {
	Ordinal  int
	Manifest apply.Manifest
	// Refused is why the manifest is not applied, whatever the member says.
	Refused error

	// The following are known once the member has told the resource of the kind.
	Resolved bool
	Resource schema.GroupVersionResource
	Object   apply.ObjectRef
	// Scales says that autoscalers can scale the object.
	Scales bool
	// Expires says that the cluster deletes the object by itself once it has finished.
	Expires bool
	// Strategy is how the object is brought to the member. Package deliver alone
	// asks for it.
	Strategy Strategy
	// ReadOnly says that the object is not the work's: it is read and never written.
	ReadOnly bool
	// Yields says that an object that is there and is not the work's is left alone.
	Yields bool
	// Adopts says that it is noted on the object if it was there before the work.
	Adopts bool
	// Retained are fields that are the cluster's once the object exists.
	Retained []ignore.Path
	// Apply are the options of server-side apply, nil with other strategies.
	Apply   *workv1.ServerSideApplyConfig
	Ignored *ignore.CompiledFields // fields to leave alone, nil for none
	// Hash is of the manifest and of how it is applied.
	Hash apply.ManifestHash
	// plain is the hash without what users of the hub say, and said what they do.
	plain apply.ManifestHash
	said  interpreters.KindRevision
	// Observation is what is asked about the object, nil if nothing is.
	Observation *Observation

	Past apply.LastWrite
	// Sent is the hash of what was applied last, if the work is interpreted; zero if
	// that is not known.
	Sent apply.ManifestHash
	// Kept are fields that were left to the cluster when a customization was asked last.
	Kept   []ignore.Path
	At     time.Time // of the last write
	Damper apply.CorrectionDamper
	// Undeclared are fields that were left out of what was sent last, nil for none.
	Undeclared *UndeclaredFields
	// Adopted is what the work took over when it took the object, nil for nothing.
	Adopted *AdoptedFields
	// Stuck are fields that the object has kept though the manifest lost them, as they cannot change.
	Stuck []string

	Outcome ItemOutcome
}

// Strategy is how an object is brought to the state of its manifest.
type Strategy uint8

// The strategies.
const (
	// StrategyUpdate takes over the fields that the manifest has.
	StrategyUpdate Strategy = iota
	// StrategyCreateOnly never changes an object that is there.
	StrategyCreateOnly
	// StrategyServerSideApply leaves conflicts to the options of the user.
	StrategyServerSideApply
	// StrategyReadOnly writes nothing.
	StrategyReadOnly
)

// ItemOutcome is what came of an item in a pass.
type ItemOutcome struct {
	Problem  apply.ObjectProblem
	Presence Presence
	Met      apply.Fingerprint // of the object before the pass wrote it
	Denied   bool              // the executor lacks a permission
	Note     string            // says more than that the object is applied
	Again    time.Duration     // when to look again if nothing happens; zero is never
}

// Presence is what is known of an object's existence.
type Presence uint8

// The presences.
const (
	PresenceUnknown Presence = iota
	PresenceYes
	PresenceNo
)

// isSettled reports whether it would do no harm to forget about an item all but
// what was written.
func (it *ManifestItem) isSettled(now time.Time) bool {
	return it.Resolved && it.Refused == nil && it.Outcome.Problem.Trouble == apply.TroubleNone && it.Outcome.Again == 0 &&
		it.Past.Hash == it.Hash && it.Past.Mark.UID != "" && it.Ignored == nil && it.Observation == nil && it.Undeclared == nil && it.Adopted == nil && len(it.Stuck) == 0 && it.Damper.IsQuiet(now)
}

// resolveResource fills in what depends on the resource of the item's kind.
func (it *ManifestItem) resolveResource(resource apply.Resource, configs []workv1.ManifestConfigOption) {
	it.Resolved, it.Hash = true, it.Manifest.Hash
	it.Resource = resource.GroupVersionResource
	it.Scales = resource.Scales
	it.Object = apply.ObjectRef{
		Group: resource.Group, Resource: resource.Resource,
		Namespace: it.Manifest.Namespace, Name: it.Manifest.Name,
	}
	switch {
	case !resource.Namespaced:
		it.Object.Namespace = ""
	case it.Object.Namespace == "":
		it.Refused = fmt.Errorf("%w: objects of kind %s are namespaced; set metadata.namespace",
			apply.ErrNotObject, it.Manifest.Kind.Kind)
		return
	}
	for i := range configs {
		if matchesObject(configs[i].ResourceIdentifier, it.Object) {
			it.applyConfig(&configs[i])
			return
		}
	}
}

// applyConfig takes over the options for the item.
func (it *ManifestItem) applyConfig(config *workv1.ManifestConfigOption) {
	if config.UpdateStrategy == nil {
		return
	}
	switch config.UpdateStrategy.Type {
	case "", workv1.UpdateStrategyTypeUpdate:
	case workv1.UpdateStrategyTypeCreateOnly:
		it.Strategy = StrategyCreateOnly
		it.Hash = apply.HashManifest(append([]byte(workv1.UpdateStrategyTypeCreateOnly), it.Manifest.Hash[:]...))
	case workv1.UpdateStrategyTypeReadOnly:
		it.Strategy = StrategyReadOnly
		it.ReadOnly = true
	case workv1.UpdateStrategyTypeServerSideApply:
		it.Strategy = StrategyServerSideApply
		it.Apply = cmp.Or(config.UpdateStrategy.ServerSideApply, &workv1.ServerSideApplyConfig{})
		if len(it.Apply.IgnoreFields) > 0 {
			it.Ignored, it.Refused = ignore.CompileExpressions(it.Apply.IgnoreFields)
		}
		how, err := json.Marshal(it.Apply)
		if err != nil { // text and numbers only
			it.Refused = fmt.Errorf("updateStrategy.serverSideApply: %w", err)
		}
		it.Hash = apply.HashManifest(append(how, it.Manifest.Hash[:]...))
	default:
		it.Refused = fmt.Errorf("this version of the agent does not support updateStrategy.type %q: %w",
			config.UpdateStrategy.Type, errUnsupported)
	}
}

// IsCustomized reports whether users of the hub say, or said, what of the object is the
// cluster's.
func (it *ManifestItem) IsCustomized() bool {
	return it.Strategy == StrategyUpdate && it.said.Retention != 0
}

// applyRevision takes in what users of the hub say of the kind. What something else is said of
// is looked at anew: the object is applied in another way, or reported in another way.
func (it *ManifestItem) applyRevision(said interpreters.KindRevision) {
	if said.Report != it.said.Report && it.Observation != nil {
		it.Observation.Seen = ""
	}
	if said.Retention != it.said.Retention {
		it.Kept = nil
	}
	it.said, it.Hash = said, it.plain
	if it.IsCustomized() {
		it.Hash = apply.HashManifest(binary.BigEndian.AppendUint64(it.plain[:], said.Retention))
	}
}

// ManifestMeta identifies the item in the status of the work.
func (it *ManifestItem) ManifestMeta() workv1.ManifestResourceMeta {
	return workv1.ManifestResourceMeta{
		Ordinal: int32(it.Ordinal), //nolint:gosec // a work of 500 KiB has no 2^31 manifests
		Group:   it.Manifest.Kind.Group, Version: it.Manifest.Kind.Version, Kind: it.Manifest.Kind.Kind,
		Resource: it.Resource.Resource, Namespace: it.Manifest.Namespace, Name: it.Manifest.Name,
	}
}

// String names the manifest for messages.
func (it *ManifestItem) String() string {
	name := it.Manifest.Name
	if it.Manifest.Namespace != "" {
		name = it.Manifest.Namespace + "/" + name
	}
	return strings.TrimSpace(fmt.Sprintf("manifest %d %s", it.Ordinal, strings.TrimSpace(it.Manifest.Kind.Kind+" "+name)))
}

// refusalProblem is what a manifest has that is not applied whatever the member says.
func refusalProblem(err error) apply.ObjectProblem {
	if errors.Is(err, apply.ErrNotObject) || errors.Is(err, ignore.ErrExpression) {
		return apply.ExplainError(err, "", apply.ObjectRef{})
	}
	return apply.ObjectProblem{Trouble: apply.TroubleInvalid, Message: ToSentence(err.Error())}
}

// ToSentence makes an error text a sentence.
func ToSentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}

// matchesObject reports whether an identifier of the API names the object. "*" stands
// for any characters in the namespace and the name.
func matchesObject(id workv1.ResourceIdentifier, object apply.ObjectRef) bool {
	return id.Group == object.Group && id.Resource == object.Resource &&
		matchGlob(id.Namespace, object.Namespace) && matchGlob(id.Name, object.Name)
}

func matchGlob(pattern, text string) bool {
	if pattern == text || pattern == "*" {
		return true
	}
	ok, err := path.Match(pattern, text)
	return err == nil && ok
}

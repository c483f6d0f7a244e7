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

	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/interpret/users"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
)

// errUnsupported marks options of the API that this agent does not know.
var errUnsupported = errors.New("the object is not applied")

// DesiredObject is what a manifest, and what the work says beside it, want of an object.
type DesiredObject struct {
	Ordinal  int
	Manifest apply.Manifest
	// Refused is why the manifest is not applied, whatever the member says.
	Refused error
	// Problem is that, or why the member does not know the kind.
	Problem apply.ObjectProblem
	// Expires says that the cluster deletes the object by itself once it has finished.
	Expires bool
	// Yields says that an object that is there and is not the work's is left alone.
	Yields bool
	// Adopts says that it is noted on the object if it was there before the work.
	Adopts bool

	// The following are known once the member has told the resource of the kind.
	Resolved bool
	Resource schema.GroupVersionResource
	Object   apply.ObjectRef
	// Scales says that autoscalers can scale the object.
	Scales bool
	// Strategy is how the object is brought to the member. Package deliver alone
	// asks for it.
	Strategy Strategy
	// ReadOnly says that the object is not the work's: it is read and never written.
	ReadOnly bool
	// Retained are fields that are the cluster's once the object exists.
	Retained []ignore.Path
	// Apply are the options of server-side apply, nil with other strategies.
	Apply   *workv1.ServerSideApplyConfig
	Ignored *ignore.CompiledFields // fields to leave alone, nil for none
	// Observer is what is asked about the object, nil if nothing is.
	Observer *ObjectObserver

	// Hash is of the manifest and of how it is applied.
	Hash apply.ManifestHash
	// Revision is of what users of the hub say of the kind.
	Revision users.KindRevision
	// plain is the hash without that.
	plain apply.ManifestHash
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

// parseManifest takes in the manifest with the ordinal.
func (d *DesiredObject) parseManifest(ordinal int, raw []byte, options WorkOptions) {
	d.Ordinal = ordinal
	manifest, err := apply.ParseManifest(raw)
	d.Manifest = manifest
	switch {
	case err != nil:
		d.refuse(err)
		return
	case options.Yields:
		d.setYielding(raw)
	}
	d.Expires = d.Refused == nil && isExpiring(&d.Manifest, raw)
}

// refuse has the manifest not applied for a reason.
func (d *DesiredObject) refuse(err error) {
	d.Refused = err
	d.Problem = refusalProblem(err)
}

// resolveResource fills in what depends on the resource of the kind.
func (d *DesiredObject) resolveResource(resource apply.Resource, configs []workv1.ManifestConfigOption) {
	d.Resolved, d.Hash = true, d.Manifest.Hash
	d.Resource = resource.GroupVersionResource
	d.Scales = resource.Scales
	d.Object = apply.ObjectRef{
		Group: resource.Group, Resource: resource.Resource,
		Namespace: d.Manifest.Namespace, Name: d.Manifest.Name,
	}
	switch {
	case !resource.Namespaced:
		d.Object.Namespace = ""
	case d.Object.Namespace == "":
		d.refuse(fmt.Errorf("%w: objects of kind %s are namespaced; set metadata.namespace",
			apply.ErrNotObject, d.Manifest.Kind.Kind))
		return
	}
	for i := range configs {
		if matchesObject(configs[i].ResourceIdentifier, d.Object) {
			d.applyConfig(&configs[i])
			return
		}
	}
}

// applyConfig takes over the options for the object.
func (d *DesiredObject) applyConfig(config *workv1.ManifestConfigOption) {
	if config.UpdateStrategy == nil {
		return
	}
	switch config.UpdateStrategy.Type {
	case "", workv1.UpdateStrategyTypeUpdate:
	case workv1.UpdateStrategyTypeCreateOnly:
		d.Strategy = StrategyCreateOnly
		d.Hash = apply.HashManifest(append([]byte(workv1.UpdateStrategyTypeCreateOnly), d.Manifest.Hash[:]...))
	case workv1.UpdateStrategyTypeReadOnly:
		d.Strategy = StrategyReadOnly
		d.ReadOnly = true
	case workv1.UpdateStrategyTypeServerSideApply:
		d.Strategy = StrategyServerSideApply
		d.Apply = cmp.Or(config.UpdateStrategy.ServerSideApply, &workv1.ServerSideApplyConfig{})
		if len(d.Apply.IgnoreFields) > 0 {
			var err error
			if d.Ignored, err = ignore.CompileExpressions(d.Apply.IgnoreFields); err != nil {
				d.refuse(err)
			}
		}
		how, err := json.Marshal(d.Apply)
		if err != nil { // text and numbers only
			d.refuse(fmt.Errorf("updateStrategy.serverSideApply: %w", err))
		}
		d.Hash = apply.HashManifest(append(how, d.Manifest.Hash[:]...))
	default:
		d.refuse(fmt.Errorf("this version of the agent does not support updateStrategy.type %q: %w",
			config.UpdateStrategy.Type, errUnsupported))
	}
}

// IsCustomized reports whether users of the hub say, or said, what of the object is the
// cluster's.
func (d *DesiredObject) IsCustomized() bool {
	return d.Strategy == StrategyUpdate && d.Revision.Retention != 0
}

// applyRevision takes in what users of the hub say of the kind. If they say something else of what
// is the cluster's, the object is applied in another way.
func (d *DesiredObject) applyRevision(said users.KindRevision) {
	d.Revision = said
	d.Hash = d.plain
	if d.IsCustomized() {
		d.Hash = apply.HashManifest(binary.BigEndian.AppendUint64(d.plain[:], said.Retention))
	}
}

// ManifestMeta identifies the object in the status of the work.
func (d *DesiredObject) ManifestMeta() workv1.ManifestResourceMeta {
	return workv1.ManifestResourceMeta{
		Ordinal: int32(d.Ordinal), //nolint:gosec // a work of 500 KiB has no 2^31 manifests
		Group:   d.Manifest.Kind.Group, Version: d.Manifest.Kind.Version, Kind: d.Manifest.Kind.Kind,
		Resource: d.Resource.Resource, Namespace: d.Manifest.Namespace, Name: d.Manifest.Name,
	}
}

// String names the manifest for messages.
func (d *DesiredObject) String() string {
	name := d.Manifest.Name
	if d.Manifest.Namespace != "" {
		name = d.Manifest.Namespace + "/" + name
	}
	return strings.TrimSpace(fmt.Sprintf("manifest %d %s", d.Ordinal, strings.TrimSpace(d.Manifest.Kind.Kind+" "+name)))
}

// refusalProblem is what a manifest has that is not applied whatever the member says.
func refusalProblem(err error) apply.ObjectProblem {
	if errors.Is(err, apply.ErrNotObject) || errors.Is(err, ignore.ErrExpression) {
		return apply.ExplainError(err, "", apply.ObjectRef{})
	}
	return apply.ObjectProblem{Trouble: apply.TroubleInvalid, Message: ToSentence(err.Error())}
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

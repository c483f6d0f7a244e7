// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package label

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/cli/exit"
)

// splitNamesAndChanges separates names of clusters from the changes to them: a change has an
// equals sign, a colon, or a hyphen at its end, which no name has.
func splitNamesAndChanges(args []string) (names, changes []string, err error) {
	if len(args) > 0 && slices.Contains([]string{"cluster", "clusters", "managedcluster", "managedclusters", "mcl"}, args[0]) {
		args = args[1:]
	}
	for _, arg := range args {
		isChange := strings.ContainsAny(arg, "=:") || strings.HasSuffix(arg, "-")
		switch {
		case isChange:
			changes = append(changes, arg)
		case len(changes) > 0:
			return nil, nil, exit.UsageError("%q is neither a change nor, in this place, the name of a cluster: names come first", arg)
		default:
			names = append(names, arg)
		}
	}
	return names, changes, nil
}

// taintChange is what to do with a taint.
type taintChange struct {
	taint clusterv1.Taint
	// remove takes the taint away; without an effect, those of all effects.
	remove bool
}

// nodeEffects maps the effects that taints of nodes have to those of clusters
// that mean the same.
func nodeEffects() map[string]clusterv1.TaintEffect {
	return map[string]clusterv1.TaintEffect{
		"NoSchedule": clusterv1.TaintEffectNoSelectIfNew, "NoExecute": clusterv1.TaintEffectNoSelect, "PreferNoSchedule": clusterv1.TaintEffectPreferNoSelect,
	}
}

// parseTaint reads KEY[=VALUE]:EFFECT, KEY[=VALUE]:EFFECT- or KEY-.
func parseTaint(text string) (taintChange, error) {
	text, remove := strings.CutSuffix(text, "-")
	keyValue, effect, hasEffect := strings.Cut(text, ":")
	key, value, hasValue := strings.Cut(keyValue, "=")
	change := taintChange{remove: remove, taint: clusterv1.Taint{Key: key, Value: value, Effect: clusterv1.TaintEffect(effect)}}
	if problems := validation.IsQualifiedName(key); len(problems) > 0 {
		return change, exit.UsageError("taint %q: its key is not valid: %s", text, strings.Join(problems, "; "))
	}
	if same, ok := nodeEffects()[effect]; ok {
		change.taint.Effect = same
	}
	switch change.taint.Effect {
	case clusterv1.TaintEffectNoSelect, clusterv1.TaintEffectPreferNoSelect, clusterv1.TaintEffectNoSelectIfNew:
		return change, nil
	}
	switch {
	case remove && !hasEffect && !hasValue:
		return change, nil
	case !hasEffect:
		return change, exit.UsageError("taint %q has no effect: write KEY=VALUE:EFFECT, with effect NoSelect, PreferNoSelect or NoSelectIfNew", text)
	default:
		return change, exit.UsageError("taint %q: unknown effect %q; the effects are NoSelect, PreferNoSelect and NoSelectIfNew", text, effect)
	}
}

// editTaints returns the taints with the changes. It does not change those that
// it is given. A taint that is there already with another value is replaced
// only by overwriting, and one that is not there cannot be removed.
func editTaints(taints []clusterv1.Taint, changes []taintChange, overwrite bool) ([]clusterv1.Taint, error) {
	edited := slices.Clone(taints)
	for _, change := range changes {
		same := func(t clusterv1.Taint) bool {
			return t.Key == change.taint.Key && (t.Effect == change.taint.Effect || change.remove && change.taint.Effect == "")
		}
		at := slices.IndexFunc(edited, same)
		switch {
		case change.remove && at < 0:
			return nil, fmt.Errorf("taint %q not found", formatTaint(change.taint))
		case change.remove:
			edited = slices.DeleteFunc(edited, same)
		case at < 0:
			edited = append(edited, change.taint)
		case edited[at].Value == change.taint.Value:
		case !overwrite:
			return nil, exit.Next(fmt.Errorf("taint %q is already set", formatTaint(edited[at])), "Add --overwrite to replace its value.")
		default:
			edited[at].Value = change.taint.Value
		}
	}
	return edited, nil
}

// formatTaint writes a taint as it is written on the command line.
func formatTaint(taint clusterv1.Taint) string {
	text := taint.Key
	if taint.Value != "" {
		text += "=" + taint.Value
	}
	if taint.Effect != "" {
		text += ":" + string(taint.Effect)
	}
	return text
}

// labelChanges are the labels to set and those to take away.
type labelChanges struct {
	set    map[string]string
	remove []string
}

// parseLabels reads KEY=VALUE and KEY-.
func parseLabels(texts []string) (labelChanges, error) {
	changes := labelChanges{set: map[string]string{}}
	for _, text := range texts {
		key, value, hasValue := strings.Cut(text, "=")
		if !hasValue {
			var remove bool
			if key, remove = strings.CutSuffix(text, "-"); !remove {
				return changes, exit.UsageError("label %q: write KEY=VALUE to set it, or KEY- to remove it", text)
			}
		}
		if problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(problems) > 0 {
			return changes, exit.UsageError("label %q is not valid: %s", text, strings.Join(problems, "; "))
		}
		if before, twice := changes.set[key]; twice && (before != value || !hasValue) || hasValue && slices.Contains(changes.remove, key) {
			return changes, exit.UsageError("label %q is both set and removed, or set twice", key)
		}
		if hasValue {
			changes.set[key] = value
		} else {
			changes.remove = append(changes.remove, key)
		}
	}
	return changes, nil
}

// editLabels returns the labels with the changes. It does not change those that
// it is given. A label that is there with another value is replaced only by
// overwriting; one that is not there need not be taken away.
func editLabels(labels map[string]string, changes labelChanges, overwrite bool) (map[string]string, error) {
	edited := maps.Clone(labels)
	if edited == nil {
		edited = map[string]string{}
	}
	for _, key := range slices.Sorted(maps.Keys(changes.set)) {
		value := changes.set[key]
		if before, there := edited[key]; there && before != value && !overwrite {
			return nil, exit.Next(fmt.Errorf("label %q is already set to %q", key, before), "Add --overwrite to replace it.")
		}
		edited[key] = value
	}
	for _, key := range changes.remove {
		delete(edited, key)
	}
	return edited, nil
}

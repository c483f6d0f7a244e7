// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/controlplane/archive"
	"github.com/capstan-io/capstan/internal/controlplane/restored"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

// bump is how many revisions are left out, more than a hub uses between a backup
// and its loss: at 1,000 writes a second, they last for eleven days.
const bump = 1_000_000_000

// checkBackupFits tells why a backup cannot be restored to a control plane, if it cannot.
func checkBackupFits(of archive.Manifest, cp *fleetv1alpha1.ControlPlane) error {
	switch {
	case of.Hub != cp.Name || of.Namespace != cp.Namespace:
		return exit.Next(fmt.Errorf("the backup is of the hub %q in namespace %q, not of %q in namespace %q", of.Hub, of.Namespace, cp.Name, cp.Namespace),
			"Choose that one with --name and --namespace; its keys and addresses are made for these names.")
	case !cp.DeletionTimestamp.IsZero():
		return fmt.Errorf("the dedicated hub %q is being removed", cp.Name)
	case cp.Spec.Etcd.Managed == nil:
		return exit.Next(fmt.Errorf("the dedicated hub %q stores its objects in an etcd that the hub does not run", cp.Name),
			"Restore that etcd with its own tools: see \"Backup\" in docs/spec/fleet/controlplane.md.")
	}
	if problem := manifests.VersionProblem(of.KubernetesVersion, cp.Spec.Version); problem != "" {
		return fmt.Errorf("the backup is of Kubernetes %s, and the ControlPlane is to run %s: %s", of.KubernetesVersion, cp.Spec.Version, problem)
	}
	return nil
}

// rangeOf returns the versions that a hub will have forgotten that is brought back to
// a revision: more than any that it can have given, also after an earlier restore.
func rangeOf(snapshot int64, cp *fleetv1alpha1.ControlPlane) (restored.VersionRange, error) {
	last := snapshot
	earlier, err := restored.RangeOf(cp)
	if err != nil {
		return restored.VersionRange{}, fmt.Errorf("the ControlPlane %q: %w", cp.Name, err)
	}
	if earlier != nil {
		last = max(last, earlier.Until)
	}
	return restored.NewVersionRange(snapshot, last+bump)
}

// workVersion is what is known of a ManifestWork.
type workVersion struct{ uid, version string }

// workVersions are those of a hub by cluster and name.
type workVersions map[string]workVersion

// differences are how ManifestWorks differ from those before a restore.
type differences struct{ forgotten, back, reverted []string }

func compareWorks(before, after workVersions, versions restored.VersionRange) differences {
	var d differences
	for name, was := range before {
		is, there := after[name]
		changed, err := strconv.ParseInt(was.version, 10, 64)
		switch {
		case !there || is.uid != was.uid:
			d.forgotten = append(d.forgotten, name)
		case err != nil || changed > versions.After:
			d.reverted = append(d.reverted, name)
		}
	}
	for name, is := range after {
		if was, there := before[name]; !there || was.uid != is.uid {
			d.back = append(d.back, name)
		}
	}
	return d
}

// namesMax is how many names a summary has of each kind.
const namesMax = 10

// summarizeRestore tells what the hub is now.
func summarizeRestore(name string, created time.Time, versions restored.VersionRange, before, after workVersions) string {
	lines := []string{fmt.Sprintf("The hub %q is as it was on %s, with %d ManifestWorks.", name, created.Format(time.RFC3339), len(after))}
	if before == nil {
		lines = append(lines, "What it had until now could not be read, so it is unknown which ManifestWorks were changed, created or deleted since.")
	} else {
		d := compareWorks(before, after, versions)
		for _, kind := range []struct {
			what  string
			names []string
		}{
			{"forgotten, as they were created since", d.forgotten},
			{"back, as they were deleted since", d.back},
			{"as they were, and not as they were changed since", d.reverted},
		} {
			lines = append(lines, fmt.Sprintf("%d ManifestWorks are %s%s", len(kind.names), kind.what, formatFirstNames(kind.names)))
		}
	}
	return strings.Join(append(lines,
		"Agents keep what forgotten ManifestWorks delivered, and report it in condition WorksMissing of their ManagedCluster. Create these works again, or see \"capstan restore confirm --help\"."), "\n")
}

// formatFirstNames returns the first names, sorted.
func formatFirstNames(names []string) string {
	if len(names) == 0 {
		return "."
	}
	slices.Sort(names)
	shown := strings.Join(names[:min(len(names), namesMax)], ", ")
	if more := len(names) - namesMax; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return ": " + shown
}

// SPDX-License-Identifier: Apache-2.0

// Answers what Kubernetes' own field manager makes of server-side applies and updates, so that tests can compare.
//
// Reads one JSON document a line and writes one for each. A case names a schema (OpenAPI models by name), a kind, and
// one operation; it is run `repeat` times, and the distinct answers are returned: what Go's map order decides has more
// than one.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

type request struct {
	Op     string `json:"op"`
	Repeat int    `json:"repeat"`

	// define
	Schema   string                  `json:"schema"`
	Models   map[string]*spec.Schema `json:"models"`
	Preserve bool                    `json:"preserve"`

	// apply, update, extract
	APIVersion  string                     `json:"apiVersion"`
	Kind        string                     `json:"kind"`
	Subresource string                     `json:"subresource"`
	Served      []string                   `json:"served"`
	Forgotten   []string                   `json:"forgotten"`
	Reset       map[string]json.RawMessage `json:"reset"`
	Live        json.RawMessage            `json:"live"`
	New         json.RawMessage            `json:"new"`
	Manager     string                     `json:"manager"`
	Force       bool                       `json:"force"`
	Model       string                     `json:"model"`

	// sets, extract
	Left  json.RawMessage `json:"left"`
	Right json.RawMessage `json:"right"`
}

type schemas struct {
	converter managedfields.TypeConverter
	smd       *smdschema.Schema
}

var defined = map[string]schemas{}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<28)
	out := bufio.NewWriter(os.Stdout)
	for lines.Scan() {
		answer, err := json.Marshal(answers(lines.Bytes()))
		if err != nil {
			panic(err)
		}
		out.Write(answer)
		out.WriteByte('\n')
		out.Flush()
	}
}

func answers(line []byte) []json.RawMessage {
	var r request
	if err := json.Unmarshal(line, &r); err != nil {
		return []json.RawMessage{encode(map[string]any{"broken": err.Error()})}
	}
	var distinct []json.RawMessage
	for i := 0; i < max(r.Repeat, 1); i++ {
		next := encode(answer(&r))
		known := false
		for _, one := range distinct {
			known = known || bytes.Equal(one, next)
		}
		if !known {
			distinct = append(distinct, next)
		}
	}
	return distinct
}

func encode(value any) json.RawMessage {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return raw
}

func answer(r *request) (result any) {
	defer func() {
		if cause := recover(); cause != nil {
			result = map[string]any{"panic": fmt.Sprint(cause)}
		}
	}()
	var err error
	switch r.Op {
	case "define":
		err = define(r)
		result = map[string]any{}
	case "apply", "update":
		result, err = manage(r)
	case "set":
		result, err = set(r)
	case "extract":
		result, err = extract(r)
	default:
		err = fmt.Errorf("no such operation: %q", r.Op)
	}
	if err != nil {
		return map[string]any{"error": describe(err)}
	}
	return result
}

func describe(err error) map[string]any {
	described := map[string]any{"text": err.Error()}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		described["code"] = status.Status().Code
		described["reason"] = status.Status().Reason
		if details := status.Status().Details; details != nil {
			described["causes"] = details.Causes
		}
	}
	return described
}

func define(r *request) error {
	converter, err := managedfields.NewTypeConverter(r.Models, r.Preserve)
	if err != nil {
		return err
	}
	smd, err := schemaconv.ToSchemaFromOpenAPI(r.Models, r.Preserve)
	if err != nil {
		return err
	}
	defined[r.Schema] = schemas{converter, smd}
	return nil
}

func manage(r *request) (any, error) {
	gv, err := schema.ParseGroupVersion(r.APIVersion)
	if err != nil {
		return nil, err
	}
	reset := map[fieldpath.APIVersion]*fieldpath.Set{}
	for version, raw := range r.Reset {
		fields := &fieldpath.Set{}
		if err := fields.FromJSON(bytes.NewReader(raw)); err != nil {
			return nil, err
		}
		reset[fieldpath.APIVersion(version)] = fields
	}
	fieldManager, err := managedfields.NewDefaultCRDFieldManager(
		defined[r.Schema].converter, &versions{r}, asItIs{}, asItIs{}, gv.WithKind(r.Kind), gv, r.Subresource,
		fieldpath.NewExcludeFilterSetMap(reset),
	)
	if err != nil {
		return nil, err
	}
	live, err := object(r.Live)
	if err != nil {
		return nil, err
	}
	document, err := object(r.New)
	if err != nil {
		return nil, err
	}
	var made runtime.Object
	if r.Op == "apply" {
		made, err = fieldManager.Apply(live, document, r.Manager, r.Force)
	} else {
		made, err = fieldManager.Update(live, document, r.Manager)
	}
	if err != nil {
		return nil, err
	}
	return told(made.(*unstructured.Unstructured))
}

func object(raw json.RawMessage) (*unstructured.Unstructured, error) {
	made := &unstructured.Unstructured{Object: map[string]any{}}
	return made, kjson.Unmarshal(raw, &made.Object)
}

// told is the object, with each set of fields as the text that Kubernetes itself writes.
func told(made *unstructured.Unstructured) (any, error) {
	entries := []map[string]any{}
	for _, entry := range made.GetManagedFields() {
		fields := &fieldpath.Set{}
		if err := fields.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())); err != nil {
			return nil, err
		}
		raw, err := fields.ToJSON()
		if err != nil {
			return nil, err
		}
		told := map[string]any{
			"manager": entry.Manager, "operation": entry.Operation, "apiVersion": entry.APIVersion,
			"fieldsType": entry.FieldsType, "subresource": entry.Subresource, "fieldsV1": string(raw),
		}
		if entry.Time != nil {
			told["time"] = entry.Time.UTC().Format("2006-01-02T15:04:05Z")
			if entry.Time.After(started) {
				told["time"] = "now"
			}
		}
		entries = append(entries, told)
	}
	made.SetManagedFields(nil)
	return map[string]any{"object": made.Object, "managedFields": entries}, nil
}

// Objects hold times of years ago; what is younger than this was set by the operation, in whole seconds.
var started = time.Now().Add(-time.Minute)

func set(r *request) (any, error) {
	left, right := &fieldpath.Set{}, &fieldpath.Set{}
	if err := left.FromJSON(bytes.NewReader(r.Left)); err != nil {
		return nil, err
	}
	if len(r.Right) > 0 {
		if err := right.FromJSON(bytes.NewReader(r.Right)); err != nil {
			return nil, err
		}
	}
	told := map[string]any{"equal": left.Equals(right), "paths": left.String()}
	for name, made := range map[string]*fieldpath.Set{
		"left": left, "union": left.Union(right), "intersection": left.Intersection(right),
		"difference": left.Difference(right), "recursive": left.RecursiveDifference(right), "leaves": left.Leaves(),
	} {
		raw, err := made.ToJSON()
		if err != nil {
			return nil, err
		}
		told[name] = string(raw)
	}
	return told, nil
}

func extract(r *request) (any, error) {
	live, err := object(r.Live)
	if err != nil {
		return nil, err
	}
	fields := &fieldpath.Set{}
	if err := fields.FromJSON(bytes.NewReader(r.Left)); err != nil {
		return nil, err
	}
	reference := smdschema.TypeRef{NamedType: &r.Model}
	value, err := typed.ParseableType{Schema: defined[r.Schema].smd, TypeRef: reference}.FromUnstructured(live.Object)
	if err != nil {
		return nil, err
	}
	return map[string]any{"object": value.ExtractItems(fields.Leaves()).AsValue().Unstructured()}, nil
}

// versions converts as the API server does for custom resources without a conversion webhook.
type versions struct{ *request }

func (v *versions) Convert(in, out, context any) error { return errors.New("not used") }

func (v *versions) ConvertFieldLabel(schema.GroupVersionKind, string, string) (string, string, error) {
	return "", "", errors.New("not used")
}

func (v *versions) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	from := in.GetObjectKind().GroupVersionKind()
	to, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{from})
	if !ok {
		return nil, fmt.Errorf("%v is unstructured and is not suitable for converting to %q", from.String(), target)
	}
	for _, version := range v.Forgotten {
		if to.GroupVersion().String() == version {
			return nil, runtime.NewNotRegisteredErrForKind("oracle", to)
		}
	}
	if !v.serves(to.GroupVersion()) {
		return nil, fmt.Errorf("request to convert CR to an invalid group/version: %s", to.GroupVersion())
	}
	if !v.serves(from.GroupVersion()) {
		return nil, fmt.Errorf("request to convert CR from an invalid group/version: %s", from.GroupVersion())
	}
	converted := in.DeepCopyObject()
	converted.GetObjectKind().SetGroupVersionKind(to)
	return converted, nil
}

func (v *versions) serves(wanted schema.GroupVersion) bool {
	for _, version := range v.Served {
		if wanted.String() == version {
			return true
		}
	}
	return false
}

// asItIs makes empty objects and no defaults.
type asItIs struct{}

func (asItIs) Default(runtime.Object) {}

func (asItIs) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	made := &unstructured.Unstructured{}
	made.SetGroupVersionKind(kind)
	return made, nil
}

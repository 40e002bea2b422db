// SPDX-License-Identifier: Apache-2.0

// An operator as its authors write it with controller-runtime: a kind with two versions, of which one is converted by a
// webhook, a defaulter, a validator, and a reconciler that applies a ConfigMap. Tests run it against the local API
// server, to prove that it works unchanged there.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

var (
	hubVersion   = schema.GroupVersion{Group: "example.test", Version: "v1"}
	spokeVersion = schema.GroupVersion{Group: "example.test", Version: "v1beta1"}
)

// Widget is the stored version.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WidgetSpec   `json:"spec,omitempty"`
	Status            WidgetStatus `json:"status,omitempty"`
}

type WidgetSpec struct {
	Replicas int    `json:"replicas,omitempty"`
	Color    string `json:"color,omitempty"`
}

type WidgetStatus struct {
	Ready      int                `json:"ready"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Widget `json:"items"`
}

func (w *Widget) Hub() {}

func (w *Widget) DeepCopyObject() runtime.Object {
	copied := *w
	copied.ObjectMeta = *w.ObjectMeta.DeepCopy()
	copied.Status.Conditions = append([]metav1.Condition(nil), w.Status.Conditions...)
	return &copied
}

func (l *WidgetList) DeepCopyObject() runtime.Object {
	copied := WidgetList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for _, item := range l.Items {
		copied.Items = append(copied.Items, *item.DeepCopyObject().(*Widget))
	}
	return &copied
}

// OldWidget is v1beta1, where spec.replicas was spec.count.
type OldWidget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              OldWidgetSpec `json:"spec,omitempty"`
	Status            WidgetStatus  `json:"status,omitempty"`
}

type OldWidgetSpec struct {
	Count int    `json:"count,omitempty"`
	Color string `json:"color,omitempty"`
}

func (w *OldWidget) DeepCopyObject() runtime.Object {
	copied := *w
	copied.ObjectMeta = *w.ObjectMeta.DeepCopy()
	copied.Status.Conditions = append([]metav1.Condition(nil), w.Status.Conditions...)
	return &copied
}

func (w *OldWidget) ConvertTo(hub conversion.Hub) error {
	to := hub.(*Widget)
	to.ObjectMeta, to.Status = w.ObjectMeta, w.Status
	to.Spec = WidgetSpec{Replicas: w.Spec.Count, Color: w.Spec.Color}
	return nil
}

func (w *OldWidget) ConvertFrom(hub conversion.Hub) error {
	from := hub.(*Widget)
	w.ObjectMeta, w.Status = from.ObjectMeta, from.Status
	w.Spec = OldWidgetSpec{Count: from.Spec.Replicas, Color: from.Spec.Color}
	return nil
}

type hooks struct{}

func (hooks) Default(_ context.Context, w *Widget) error {
	if w.Spec.Color == "" {
		w.Spec.Color = "blue"
	}
	return nil
}

func (hooks) ValidateCreate(_ context.Context, w *Widget) (admission.Warnings, error) {
	if w.Spec.Color == "red" {
		return nil, errors.New("no widget is red")
	}
	return admission.Warnings{"widgets are deprecated"}, nil
}

func (h hooks) ValidateUpdate(ctx context.Context, _, w *Widget) (admission.Warnings, error) {
	_, err := h.ValidateCreate(ctx, w)
	return nil, err
}

func (hooks) ValidateDelete(context.Context, *Widget) (admission.Warnings, error) { return nil, nil }

type reconciler struct{ client.Client }

func (r reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var widget Widget
	if err := r.Get(ctx, request.NamespacedName, &widget); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	owner := metav1apply.OwnerReference().WithAPIVersion(hubVersion.String()).WithKind("Widget").
		WithName(widget.Name).WithUID(widget.UID).WithController(true).WithBlockOwnerDeletion(true)
	made := corev1apply.ConfigMap(widget.Name, widget.Namespace).WithOwnerReferences(owner).
		WithData(map[string]string{"replicas": fmt.Sprint(widget.Spec.Replicas), "color": widget.Spec.Color})
	if err := r.Apply(ctx, made, client.FieldOwner("widgets"), client.ForceOwnership); err != nil {
		return ctrl.Result{}, err
	}
	before := widget.DeepCopyObject().(*Widget)
	widget.Status.Ready = widget.Spec.Replicas
	meta.SetStatusCondition(&widget.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Applied", ObservedGeneration: widget.Generation,
	})
	return ctrl.Result{}, r.Status().Patch(ctx, &widget, client.MergeFrom(before))
}

func main() {
	certificates := flag.String("certificates", "", "folder with tls.crt and tls.key of the webhooks")
	port := flag.Int("port", 9443, "of the webhooks, on 127.0.0.1")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := run(*certificates, *port); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(certificates string, port int) error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	scheme.AddKnownTypes(hubVersion, &Widget{}, &WidgetList{})
	scheme.AddKnownTypeWithName(spokeVersion.WithKind("Widget"), &OldWidget{})
	metav1.AddToGroupVersion(scheme, hubVersion)
	metav1.AddToGroupVersion(scheme, spokeVersion)
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:                  scheme,
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		LeaderElection:          true,
		LeaderElectionID:        "widgets.example.test",
		LeaderElectionNamespace: "default",
		WebhookServer:           webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: certificates}),
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).For(&Widget{}).Owns(&corev1.ConfigMap{}).Complete(reconciler{manager.GetClient()})
	if err != nil {
		return err
	}
	err = ctrl.NewWebhookManagedBy(manager, &Widget{}).WithDefaulter(hooks{}).WithValidator(hooks{}).Complete()
	if err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
